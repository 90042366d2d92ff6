/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/finite_check.h"

enum { LARGEST_WINDOW = 1 << 20 };

/* The first of those that are set, though they are of no use without another one. */
typedef struct {
    const char *name;
    bool set;
} given_option;

static hs_code refuse_idle(const given_option *options, size_t n, const char *without, hs_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (options[i].set)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s has no effect without %s", options[i].name, without);
    return HS_OK;
}
#define REFUSE_IDLE(without, err, ...)                                                                                     \
    refuse_idle((const given_option[]){__VA_ARGS__}, sizeof((const given_option[]){__VA_ARGS__}) / sizeof(given_option),   \
                without, err)

static hs_code check_count(const char *name, int64_t count, bool may_be_never, hs_error *err)
{
    if (count >= (may_be_never ? HS_NEVER : 0))
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %lld; it must be at least 1%s", name, (long long)count,
                        may_be_never ? ", or HS_NEVER for no limit" : "");
}

static bool is_there(const char *text)
{
    return text && *text;
}

static hs_code check_rollback(const hs_finite_guard_options *o, hs_error *err)
{
    hs_code code;
    if (o->policy != HS_GUARD_ROLLBACK)
        return REFUSE_IDLE("HS_GUARD_ROLLBACK", err, {"saver", o->saver}, {"scaffold", o->scaffold},
                           {"max_rollbacks", o->max_rollbacks}, {"learning_rate", is_there(o->learning_rate)},
                           {"learning_rate_factor", o->learning_rate_factor != 0}, {"skip_op", is_there(o->skip_op)},
                           {"skip_batches", o->skip_batches}, {"snapshot_limit", o->snapshot_limit});
    if (o->saver && o->scaffold)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "both saver and scaffold are given; give at most one of the two");
    if ((code = check_count("max_rollbacks", o->max_rollbacks, true, err)) ||
        (code = check_count("snapshot_limit", o->snapshot_limit, true, err)) ||
        (code = check_count("skip_batches", o->skip_batches, false, err)))
        return code;
    if (!is_there(o->learning_rate) &&
        (code = REFUSE_IDLE("learning_rate", err, {"learning_rate_factor", o->learning_rate_factor != 0})))
        return code;
    if (!is_there(o->skip_op) && (code = REFUSE_IDLE("skip_op", err, {"skip_batches", o->skip_batches})))
        return code;
    if (!(o->learning_rate_factor >= 0 && o->learning_rate_factor <= 1))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "learning_rate_factor is %g; it must be above 0 and at most 1",
                            o->learning_rate_factor);
    return HS_OK;
}

static hs_code check_skip(const hs_finite_guard_options *o, hs_error *err)
{
    if (o->policy != HS_GUARD_SKIP_STEP)
        return REFUSE_IDLE("HS_GUARD_SKIP_STEP", err, {"update_op", is_there(o->update_op)}, {"max_skips", o->max_skips});
    if (!is_there(o->update_op))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "HS_GUARD_SKIP_STEP requires update_op: let the training run only compute gradients, and name the op that "
            "applies them");
    if (o->every_n_steps || o->every_n_secs != 0 || o->trigger)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "HS_GUARD_SKIP_STEP excludes %s, because it checks every training run",
                            o->trigger         ? "trigger"
                            : o->every_n_steps ? "every_n_steps"
                                               : "every_n_secs");
    return check_count("max_skips", o->max_skips, true, err);
}

static bool has_names(const char *const *names)
{
    return names && names[0];
}

static hs_code check_spikes(const hs_finite_guard_options *o, hs_error *err)
{
    hs_code code;
    if (!has_names(o->losses) &&
        (code = REFUSE_IDLE("losses", err, {"spike_zscore", o->spike_zscore != 0}, {"spike_window", o->spike_window})))
        return code;
    if (!(o->spike_zscore >= 0 || o->spike_zscore == HS_NEVER))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "spike_zscore is %g; it must be above 0, or HS_NEVER",
                            o->spike_zscore);
    if (o->spike_window && (o->spike_window < 2 || o->spike_window > LARGEST_WINDOW))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "spike_window is %lld; it must be from 2 to %d",
                            (long long)o->spike_window, LARGEST_WINDOW);
    return HS_OK;
}

hs_code hs__finite_check(const void *options, hs_error *err)
{
    const hs_finite_guard_options *o = options;
    hs_code code;
    if (!has_names(o->inputs) && !has_names(o->activations) && !has_names(o->gradients) && !has_names(o->parameters) &&
        !has_names(o->losses))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "nothing to watch; name tensors in inputs, activations, gradients, parameters or losses");
    if (o->policy < HS_GUARD_FAIL || o->policy > HS_GUARD_WARN)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "policy is %d, not an hs_guard_policy", (int)o->policy);
    if (!is_there(o->dump_dir) &&
        (code = REFUSE_IDLE("dump_dir", err, {"dump_also", has_names(o->dump_also)}, {"max_dumps", o->max_dumps})))
        return code;
    if ((code = check_count("max_dumps", o->max_dumps, true, err)) || (code = check_spikes(o, err)) ||
        (code = check_rollback(o, err)))
        return code;
    return check_skip(o, err);
}
