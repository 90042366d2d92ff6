/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HPARAMS_H
#define HOOKSESS_HPARAMS_H

#include <hooksess/summary.h>

/* Hyperparameters for TensorBoard's hparams plugin. Each function appends a value to a Summary:
 *
 *   hs_hparams_config   all hyperparameters and metrics, once, in the directory above the runs
 *   hs_hparams_start    the values of one run, at its start
 *   hs_hparams_end      the result of one run, at its end
 *
 *     hs_hparams_start(summary, HS_HPARAMS_START_OPTIONS(.hparams = HS_HPARAMS(
 *                                   HS_HPARAM("learning rate", NUMBER, .number = 0.1),
 *                                   HS_HPARAM("optimizer", STRING, .string = "adam"))), &err);
 *     hs_summary_writer_summary(writer, hs_summary_serialized(summary), 0, &err);
 *
 * Write the Summary at step 0: a resumed run then keeps it. Errors: as in summary_values.h. All text is UTF-8; NULL:
 * none. TensorBoard: hparams_config, hparams.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef enum hs_hparam_type {
    HS_HPARAM_UNSET = 0, /* in hs_hparam_info: any type */
    HS_HPARAM_STRING = 1,
    HS_HPARAM_BOOL = 2,
    HS_HPARAM_NUMBER = 3
} hs_hparam_type;

/* A hyperparameter and its value. Frozen. */
typedef struct hs_hparam {
    const char *name;    /* (required) */
    hs_hparam_type type; /* (required) selects the value */
    bool flag;           /* HS_HPARAM_BOOL */
    unsigned char reserved[3];
    double number;      /* HS_HPARAM_NUMBER: finite */
    const char *string; /* HS_HPARAM_STRING */
} hs_hparam;

/* HS_HPARAM("learning rate", NUMBER, .number = 0.1) */
#define HS_HPARAM(NAME, TYPE, ...) HS__VALUE(hs_hparam, .name = NAME, .type = HS_HPARAM_##TYPE, __VA_ARGS__)
#define HS_HPARAMS(...)            HS__LIST(hs_hparam, __VA_ARGS__, {.type = HS_HPARAM_UNSET})

/* A hyperparameter of all runs. Frozen. */
typedef struct hs_hparam_info {
    const char *name; /* (required) */
    const char *display_name, *description;
    hs_hparam_type type; /* 0: HS_HPARAM_UNSET, any type */
    int32_t reserved_type;
    const hs_hparam *values; /* HS_HPARAMS(...): possible values, without names. NULL: any, or from `min` to `max` */
    double min, max;         /* without `values`: range of a number. Both 0: any */
    void *reserved[2];       /* NULL */
} hs_hparam_info;
#define HS_HPARAM_INFOS(...) HS__LIST(hs_hparam_info, __VA_ARGS__, {.name = NULL})

typedef enum hs_hparams_dataset {
    HS_HPARAMS_DATASET_UNKNOWN = 0,
    HS_HPARAMS_DATASET_TRAINING = 1,
    HS_HPARAMS_DATASET_VALIDATION = 2
} hs_hparams_dataset;

/* A scalar by which runs are compared. Frozen. */
typedef struct hs_hparams_metric {
    const char *tag;   /* (required) of the scalar */
    const char *group; /* directory of the scalar, below the run's. NULL: the run's */
    const char *display_name, *description;
    hs_hparams_dataset dataset; /* 0: HS_HPARAMS_DATASET_UNKNOWN */
    int32_t reserved_dataset;
    void *reserved[2]; /* NULL */
} hs_hparams_metric;
#define HS_HPARAMS_METRICS(...) HS__LIST(hs_hparams_metric, __VA_ARGS__, {.tag = NULL})

typedef struct hs_hparams_config_options {
    size_t size;
    const hs_hparam_info *hparams;    /* HS_HPARAM_INFOS(...). NULL: none */
    const hs_hparams_metric *metrics; /* HS_HPARAMS_METRICS(...). NULL: none */
    double created_secs;              /* since 1970. 0: now */
} hs_hparams_config_options;
#define HS_HPARAMS_CONFIG_OPTIONS(...) HS_OPTIONS(hs_hparams_config_options, __VA_ARGS__)

HS_API hs_code hs_hparams_config(hs_summary *summary, const hs_hparams_config_options *options, hs_error *err);

typedef struct hs_hparams_start_options {
    size_t size;
    const hs_hparam *hparams; /* HS_HPARAMS(...), each name once. NULL: none */
    const char *group_name;   /* runs of a group are shown as one. NULL: a group for this run */
    double start_secs;        /* since 1970. 0: now */
} hs_hparams_start_options;
#define HS_HPARAMS_START_OPTIONS(...) HS_OPTIONS(hs_hparams_start_options, __VA_ARGS__)

HS_API hs_code hs_hparams_start(hs_summary *summary, const hs_hparams_start_options *options, hs_error *err);

typedef enum hs_hparams_status {
    HS_HPARAMS_UNKNOWN = 0,
    HS_HPARAMS_SUCCESS = 1,
    HS_HPARAMS_FAILURE = 2,
    HS_HPARAMS_RUNNING = 3
} hs_hparams_status;

/* `end_secs`: since 1970; 0: now. */
HS_API hs_code hs_hparams_end(hs_summary *summary, hs_hparams_status status, double end_secs, hs_error *err);

HS_END_DECLS

#endif
