/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/metrics_board.h"

#include <string.h>

enum { MOST_METRICS = 1 << 20 };

void hs__metrics_board_clear(hs__metrics_board *board)
{
    for (size_t i = 0; i < board->n; i++)
        board->said[i] = (hs__metric_said){0};
}

void hs__metrics_board_look(hs__metrics_board *board, const hs_raw_session *session)
{
    for (size_t i = 0; i < board->n; i++) {
        hs__metric_said *said = &board->said[i];
        int64_t step;
        double value;
        if (!hs_raw_session_metric(session, board->names[i], &value, &step))
            continue;
        if (said->known && said->step == step && memcmp(&said->value, &value, sizeof value) == 0)
            continue;
        *said = (hs__metric_said){.known = 1, .step = step, .value = value};
    }
}

bool hs__metrics_board_take(hs__metrics_board *board, size_t index, double *value, int64_t *step)
{
    hs__metric_said *said = &board->said[index];
    bool fresh = said->known && !said->shown;
    *value = said->value;
    *step = said->step;
    said->shown = said->known;
    return fresh;
}

hs_code hs__metrics_board_save(const hs__metrics_board *board, hs_state_writer *out, hs_error *err)
{
    int64_t n = (int64_t)board->n;
    hs_code code = hs_state_writer_write(out, &n, sizeof n, err);
    return code ? code : hs_state_writer_write(out, board->said, board->n * sizeof *board->said, err);
}

hs_code hs__metrics_board_load(hs__metrics_board *board, hs_state_reader *in, hs_error *err)
{
    hs__metric_said read;
    int64_t n;
    hs_code code = hs_state_reader_read(in, &n, sizeof n, err);
    if (!code && (n < 0 || n > MOST_METRICS))
        code = hs_error_set(err, HS_DATA_LOSS, "invalid count: %lld metrics", (long long)n);
    hs__metrics_board_clear(board);
    for (int64_t i = 0; !code && i < n; i++) {
        code = hs_state_reader_read(in, &read, sizeof read, err);
        if (!code && n == (int64_t)board->n)
            board->said[i] = (hs__metric_said){read.known != 0, read.shown != 0, read.step, read.value};
    }
    return code;
}
