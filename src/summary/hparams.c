/* SPDX-License-Identifier: Apache-2.0 */
/* Hyperparameters: messages of TensorBoard's plugin, in the metadata of a value with an empty tensor. */
#include <hooksess/hparams.h>

#include "base/proto.h"
#include "summary/value.h"

#include <math.h>
#include <string.h>

enum { DATA_EXPERIMENT = 2, DATA_START, DATA_END };
enum { EXPERIMENT_CREATED = 3, EXPERIMENT_HPARAM, EXPERIMENT_METRIC };
enum { INFO_NAME = 1, INFO_DISPLAY_NAME, INFO_DESCRIPTION, INFO_TYPE, INFO_VALUES, INFO_INTERVAL };
enum { METRIC_NAME = 1, METRIC_DISPLAY_NAME = 3, METRIC_DESCRIPTION, METRIC_DATASET };
enum { START_HPARAM = 1, START_GROUP = 4, START_TIME };
enum { VALUE_NUMBER = 2, VALUE_STRING, VALUE_BOOL }; /* google.protobuf.Value */

/* A value whose metadata contains all bytes appended between begin and end. */
typedef struct {
    hs__value value;
    size_t metadata, plugin, content, data;
} opened;

static opened begin(hs_summary *summary, const char *tag, uint32_t data)
{
    static const hs_shape none = {.rank = 1};
    opened o = {.value = hs__begin_value(summary, tag, "")};
    hs__buffer *out = o.value.out;
    hs__end_field(out, hs__begin_tensor(out, HS_FLOAT, &none));
    o.metadata = hs__begin_field(out, 9);
    o.plugin = hs__begin_field(out, 1);
    hs__put_string(out, 1, "hparams");
    o.content = hs__begin_field(out, 2);
    o.data = hs__begin_field(out, data);
    return o;
}

static hs_code end(opened *o, hs_error *err)
{
    hs__buffer *out = o->value.out;
    hs__end_field(out, o->data);
    hs__end_field(out, o->content);
    hs__end_field(out, o->plugin);
    hs__end_field(out, o->metadata);
    return hs__end_value(&o->value, HS_OK, err);
}

static double time_or_now(const hs_summary *summary, double secs)
{
    return secs != 0 ? secs : (double)hs_env_realtime_ns(&summary->env) / 1e9;
}

/* Values. */

/* The field of a oneof is written even if it is 0, as its presence is the type. */
static void put_value(hs__buffer *out, uint32_t field, const hs_hparam *hparam)
{
    uint64_t bits;
    size_t value = hs__begin_field(out, field);
    switch (hparam->type) {
    case HS_HPARAM_NUMBER:
        memcpy(&bits, &hparam->number, sizeof bits);
        hs__buffer_varint(out, VALUE_NUMBER << 3 | 1);
        hs__buffer_fixed64(out, bits);
        break;
    case HS_HPARAM_BOOL:
        hs__buffer_varint(out, VALUE_BOOL << 3);
        hs__buffer_varint(out, hparam->flag);
        break;
    default:
        hs__proto_put_bytes(out, VALUE_STRING, hparam->string, strlen(hparam->string));
    }
    hs__end_field(out, value);
}

static hs_code check_hparam(const hs_hparam *hparam, const char *name, hs_error *err)
{
    if (hparam->type < HS_HPARAM_STRING || hparam->type > HS_HPARAM_NUMBER)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hyperparameter '%s': type %d does not exist", name,
                            (int)hparam->type);
    if (hparam->type == HS_HPARAM_NUMBER && !isfinite(hparam->number))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hyperparameter '%s' is %g; it must be finite", name, hparam->number);
    if (hparam->type != HS_HPARAM_STRING)
        return HS_OK;
    if (!hparam->string)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hyperparameter '%s': the string is NULL", name);
    return hs__check_text(hparam->string, "hs_hparam.string", err);
}

static hs_code check_name(const char *name, const char *what, size_t i, hs_error *err)
{
    if (!name || !*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s[%zu] has no name", what, i);
    return hs__check_text(name, what, err);
}

static hs_code check_texts(const char *const *texts, const char *const *names, size_t n, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < n; i++)
        code = hs__check_text(texts[i], names[i], err);
    return code;
}

static hs_code check_time(const char *what, double secs, hs_error *err)
{
    if (secs >= 0 && isfinite(secs))
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %g; it must be finite and at least 0", what, secs);
}

/* Experiments. */

static void put_info(hs__buffer *out, const hs_hparam_info *info)
{
    size_t begun = hs__begin_field(out, EXPERIMENT_HPARAM);
    hs__put_string(out, INFO_NAME, info->name);
    hs__put_string(out, INFO_DISPLAY_NAME, info->display_name);
    hs__put_string(out, INFO_DESCRIPTION, info->description);
    hs__put_integer(out, INFO_TYPE, (uint64_t)info->type);
    if (info->values && info->values->type) {
        size_t values = hs__begin_field(out, INFO_VALUES);
        for (size_t i = 0; info->values[i].type; i++)
            put_value(out, 1, &info->values[i]);
        hs__end_field(out, values);
    } else if (info->min != 0 || info->max != 0) {
        size_t interval = hs__begin_field(out, INFO_INTERVAL);
        hs__put_double(out, 1, info->min);
        hs__put_double(out, 2, info->max);
        hs__end_field(out, interval);
    }
    hs__end_field(out, begun);
}

static void put_metric(hs__buffer *out, const hs_hparams_metric *metric)
{
    size_t begun = hs__begin_field(out, EXPERIMENT_METRIC), name = hs__begin_field(out, METRIC_NAME);
    hs__put_string(out, 1, metric->group);
    hs__put_string(out, 2, metric->tag);
    hs__end_field(out, name);
    hs__put_string(out, METRIC_DISPLAY_NAME, metric->display_name);
    hs__put_string(out, METRIC_DESCRIPTION, metric->description);
    hs__put_integer(out, METRIC_DATASET, (uint64_t)metric->dataset);
    hs__end_field(out, begun);
}

static hs_code check_info(const hs_hparam_info *info, size_t i, hs_error *err)
{
    static const char *const names[] = {"hs_hparam_info.display_name", "hs_hparam_info.description"};
    hs_code code = check_name(info->name, "hs_hparams_config_options.hparams", i, err);
    if (code || (code = check_texts((const char *const[]){info->display_name, info->description}, names, 2, err)))
        return code;
    if (info->type < HS_HPARAM_UNSET || info->type > HS_HPARAM_NUMBER)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hyperparameter '%s': type %d does not exist", info->name,
                            (int)info->type);
    if (!isfinite(info->min) || !isfinite(info->max) || info->min > info->max)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hyperparameter '%s': min is %g and max is %g; both must be finite, and min must not be above "
                            "max",
                            info->name, info->min, info->max);
    for (size_t k = 0; !code && info->values && info->values[k].type; k++) {
        code = check_hparam(&info->values[k], info->name, err);
        if (!code && info->type && info->values[k].type != info->type)
            code = hs_error_set(err, HS_INVALID_ARGUMENT, "hyperparameter '%s': value %zu has another type", info->name, k);
    }
    return code;
}

static hs_code check_metric(const hs_hparams_metric *metric, size_t i, hs_error *err)
{
    static const char *const names[] = {"hs_hparams_metric.group", "hs_hparams_metric.display_name",
                                        "hs_hparams_metric.description"};
    hs_code code = check_name(metric->tag, "hs_hparams_config_options.metrics", i, err);
    if (!code && (metric->dataset < HS_HPARAMS_DATASET_UNKNOWN || metric->dataset > HS_HPARAMS_DATASET_VALIDATION))
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "metric '%s': data set %d does not exist", metric->tag,
                            (int)metric->dataset);
    const char *const texts[] = {metric->group, metric->display_name, metric->description};
    return code ? code : check_texts(texts, names, 3, err);
}

static hs_code check_config(const hs_hparams_config_options *o, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && o->hparams && o->hparams[i].name; i++)
        code = check_info(&o->hparams[i], i, err);
    for (size_t i = 0; !code && o->metrics && o->metrics[i].tag; i++)
        code = check_metric(&o->metrics[i], i, err);
    return code ? code : check_time("hs_hparams_config_options.created_secs", o->created_secs, err);
}

hs_code hs_hparams_config(hs_summary *summary, const hs_hparams_config_options *given, hs_error *err)
{
    static const char tag[] = "_hparams_/experiment";
    hs_hparams_config_options o = HS_INIT(hs_hparams_config_options);
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (code = HS_STRUCT_TAKE(hs_hparams_config_options, created_secs, &o, given, err)) ||
        (code = check_config(&o, err)))
        return code;
    opened value = begin(summary, tag, DATA_EXPERIMENT);
    hs__buffer *out = value.value.out;
    hs__put_double(out, EXPERIMENT_CREATED, time_or_now(summary, o.created_secs));
    for (size_t i = 0; o.hparams && o.hparams[i].name; i++)
        put_info(out, &o.hparams[i]);
    for (size_t i = 0; o.metrics && o.metrics[i].tag; i++)
        put_metric(out, &o.metrics[i]);
    return end(&value, err);
}

/* Runs. */

static hs_code check_start(const hs_hparams_start_options *o, hs_error *err)
{
    static const char *const name = "hs_hparams_start_options.group_name";
    hs_code code = check_texts(&o->group_name, &name, 1, err);
    for (size_t i = 0; !code && o->hparams && o->hparams[i].type; i++) {
        const hs_hparam *hparam = &o->hparams[i];
        if (!(code = check_name(hparam->name, "hs_hparams_start_options.hparams", i, err)))
            code = check_hparam(hparam, hparam->name, err);
        for (size_t k = 0; !code && k < i; k++)
            if (strcmp(o->hparams[k].name, hparam->name) == 0)
                code = hs_error_set(err, HS_INVALID_ARGUMENT, "hyperparameter '%s' is given twice", hparam->name);
    }
    return code ? code : check_time("hs_hparams_start_options.start_secs", o->start_secs, err);
}

hs_code hs_hparams_start(hs_summary *summary, const hs_hparams_start_options *given, hs_error *err)
{
    static const char tag[] = "_hparams_/session_start_info";
    hs_hparams_start_options o = HS_INIT(hs_hparams_start_options);
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (code = HS_STRUCT_TAKE(hs_hparams_start_options, start_secs, &o, given, err)) ||
        (code = check_start(&o, err)))
        return code;
    opened value = begin(summary, tag, DATA_START);
    hs__buffer *out = value.value.out;
    for (size_t i = 0; o.hparams && o.hparams[i].type; i++) {
        size_t entry = hs__begin_field(out, START_HPARAM);
        hs__put_string(out, 1, o.hparams[i].name);
        put_value(out, 2, &o.hparams[i]);
        hs__end_field(out, entry);
    }
    hs__put_string(out, START_GROUP, o.group_name);
    hs__put_double(out, START_TIME, time_or_now(summary, o.start_secs));
    return end(&value, err);
}

hs_code hs_hparams_end(hs_summary *summary, hs_hparams_status status, double end_secs, hs_error *err)
{
    static const char tag[] = "_hparams_/session_end_info";
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (code = check_time("hs_hparams_end: end_secs", end_secs, err)))
        return code;
    if (status < HS_HPARAMS_UNKNOWN || status > HS_HPARAMS_RUNNING)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_hparams_end: status %d does not exist", (int)status);
    opened value = begin(summary, tag, DATA_END);
    hs__put_integer(value.value.out, 1, (uint64_t)status);
    hs__put_double(value.value.out, 2, time_or_now(summary, end_secs));
    return end(&value, err);
}
