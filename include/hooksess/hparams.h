/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HPARAMS_H
#define HOOKSESS_HPARAMS_H

#include <hooksess/summary.h>

/* Hyperparameters, as TensorBoard's hparams plugin shows them: which there are and what is measured (hs_hparams_config,
 * once, in the directory above the runs'), and for each run the values it has (hs_hparams_start) and how it ended
 * (hs_hparams_end). The values go into the Summary; written at step 0 they are never dropped at a resume from a later step.
 *
 * The functions fail as those of summary_values.h do. All text is UTF-8; NULL is none.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

typedef enum hs_hparam_type {
    HS_HPARAM_UNSET = 0, /* in a description: of any type */
    HS_HPARAM_STRING = 1,
    HS_HPARAM_BOOL = 2,
    HS_HPARAM_NUMBER = 3
} hs_hparam_type;

/* A value of its type. Frozen. */
typedef struct hs_hparam {
    const char *name;
    hs_hparam_type type;
    bool flag; /* HS_HPARAM_BOOL */
    unsigned char reserved[3];
    double number;      /* HS_HPARAM_NUMBER; finite */
    const char *string; /* HS_HPARAM_STRING */
} hs_hparam;

/* HS_HPARAM("learning rate", NUMBER, .number = 0.1) */
#define HS_HPARAM(NAME, TYPE, ...) HS__VALUE(hs_hparam, .name = NAME, .type = HS_HPARAM_##TYPE, __VA_ARGS__)
#define HS_HPARAMS(...)            HS__LIST(hs_hparam, __VA_ARGS__, {.type = HS_HPARAM_UNSET})

/* A hyperparameter that the runs have. Frozen. */
typedef struct hs_hparam_info {
    const char *name; /* (required) */
    const char *display_name, *description;
    hs_hparam_type type; /* 0: HS_HPARAM_UNSET, any type */
    int32_t reserved_type;
    const hs_hparam *values; /* HS_HPARAMS(...), whose names do not matter. NULL: any, or between `min` and `max` */
    double min, max;         /* of a number; both 0: any */
    void *reserved[2];       /* NULL */
} hs_hparam_info;
#define HS_HPARAM_INFOS(...) HS__LIST(hs_hparam_info, __VA_ARGS__, {.name = NULL})

typedef enum hs_hparams_dataset {
    HS_HPARAMS_DATASET_UNKNOWN = 0,
    HS_HPARAMS_DATASET_TRAINING = 1,
    HS_HPARAMS_DATASET_VALIDATION = 2
} hs_hparams_dataset;

/* What the runs are compared by: a scalar. Frozen. */
typedef struct hs_hparams_metric {
    const char *tag;   /* (required) the scalar's */
    const char *group; /* the directory below the run's where it is; NULL: the run's own */
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
    const char *name, *description, *user;
    double created_secs; /* since 1970; 0: now */
} hs_hparams_config_options;
#define HS_HPARAMS_CONFIG_OPTIONS(...) HS_OPTIONS(hs_hparams_config_options, __VA_ARGS__)

/* TensorBoard: hparams_config. */
HS_API hs_code hs_hparams_config(hs_summary *summary, const hs_hparams_config_options *options, hs_error *err);

typedef struct hs_hparams_start_options {
    size_t size;
    const hs_hparam *hparams; /* HS_HPARAMS(...); each name once */
    const char *group_name;   /* runs of one group are shown as one; NULL: a group of its own */
    const char *model_uri, *monitor_url;
    double start_secs; /* since 1970; 0: now */
} hs_hparams_start_options;
#define HS_HPARAMS_START_OPTIONS(...) HS_OPTIONS(hs_hparams_start_options, __VA_ARGS__)

/* TensorBoard: hparams. */
HS_API hs_code hs_hparams_start(hs_summary *summary, const hs_hparams_start_options *options, hs_error *err);

typedef enum hs_hparams_status {
    HS_HPARAMS_UNKNOWN = 0,
    HS_HPARAMS_SUCCESS = 1,
    HS_HPARAMS_FAILURE = 2,
    HS_HPARAMS_RUNNING = 3
} hs_hparams_status;

/* `end_secs` is since 1970; 0: now. */
HS_API hs_code hs_hparams_end(hs_summary *summary, hs_hparams_status status, double end_secs, hs_error *err);

HS_END_DECLS

#endif
