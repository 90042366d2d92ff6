/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/step_clock.h"

static const int64_t MOST_PER_RUN = INT64_MAX / 2;

hs_code hs__step_clock_save(const hs__step_clock *clock, const hs_timer *timer, hs_state_writer *out, hs_error *err)
{
    hs_code code = hs_state_writer_write(out, &clock->per_run, sizeof clock->per_run, err);
    return code ? code : hs_timer_save(timer, out, err);
}

hs_code hs__step_clock_load(hs__step_clock *clock, hs_timer *timer, hs_state_reader *in, hs_error *err)
{
    int64_t per_run;
    hs_code code = hs_state_reader_read(in, &per_run, sizeof per_run, err);
    if (code)
        return code;
    if (per_run < 1 || per_run > MOST_PER_RUN)
        return hs_error_set(err, HS_DATA_LOSS, "invalid count: %lld steps per run", (long long)per_run);
    clock->per_run = per_run;
    clock->has_step = false;
    return hs_timer_load(timer, in, err);
}
