/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_CONTROL_H
#define HOOKSESS_HOOKS_CONTROL_H

#include <hooksess/hook.h>

/* Lets a user control a running training: the hook reads orders from a file. Beyond TensorFlow.
 *
 *     static double rate = 0.1;
 *     ...
 *     hs_hook hook = hs_control(.path = "run/control", .knobs = HS_KNOBS({.name = "rate", .value = &rate, .max = 1}));
 *
 * An order is a line of at most 1000 bytes. Empty lines are ignored; invalid lines are logged and skipped.
 *
 *   save             saves a checkpoint (hs_raw_session_request_save)
 *   stop             stops before the training is done (hs_outcome.interrupted)
 *   set NAME=VALUE   sets a knob to a number in JSON's form (0.001, 1e-3), true or false
 *
 * The hook renames the file to PATH.taken, reads it and removes it. Write it under another name in the same directory and
 * rename it:
 *
 *   echo 'set rate=0.001' > run/order && chmod go-w run/order && mv run/order run/control
 *
 * It reads after the first training run, and then once a second, after a run, with the operating system's files, not
 * hs_env.files.
 *
 * The file must be a regular file of the user of the process, of at most 64 KiB, that others cannot write (022). Other
 * files are refused with a line in the log. Users who can write to the directory can give orders.
 *
 * A set value holds from the next run on, and is logged. Checkpoints save set values, and a restore sets them again. A
 * restore of an earlier checkpoint undoes a value; a knob without `value` keeps it. Saved values without a knob, or
 * outside its limits, are ignored. The log reports both. List the hook in front of savers.
 *
 * In a group only rank 0 reads orders. They take effect on all ranks, in the boundary. If a knob's `set` refuses a value
 * on rank 0, no rank changes; if only on another rank, the run fails.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef enum hs_knob_kind {
    HS_KNOB_NUMBER = 0,  /* `value` points to a double */
    HS_KNOB_INTEGER = 1, /* to an int64_t, within +-2^53 */
    HS_KNOB_BOOL = 2     /* to a bool. Orders: true, false, 1 or 0 */
} hs_knob_kind;

/* The value of a knob, in the member of its kind. Frozen. */
typedef union hs_knob_value {
    double number;   /* HS_KNOB_NUMBER */
    int64_t integer; /* HS_KNOB_INTEGER */
    bool truth;      /* HS_KNOB_BOOL */
} hs_knob_value;

/* A number that orders may change. Frozen. */
typedef struct hs_knob {
    const char *name; /* (required) unique; at most 64 letters, digits and "_-./". Copied */
    hs_knob_kind kind;
    int32_t reserved_kind;
    /* The number in the program's memory, which must outlive the session. Set `value`, `set` or both */
    void *value;
    /* Called with a valid new value before it is written to `value`: between runs, or at opening. If it fails, the value
     * stays */
    hs_code (*set)(void *user, hs_knob_value value, hs_error *err);
    void *user;
    double min, max; /* limits. Both 0: any finite value */
    unsigned char reserved[16];
} hs_knob;

/* .knobs = HS_KNOBS({.name = "rate", .value = &rate, .max = 1}, ...) */
#define HS_KNOBS(...) HS__LIST(hs_knob, __VA_ARGS__, {.name = NULL})

typedef struct hs_control_options {
    size_t size;
    const char *path;        /* (required) the file */
    const hs_knob *knobs;    /* HS_KNOBS(...). NULL: none */
    const char *summary_dir; /* event file for the changes, as scalars "control/NAME". NULL: none */
} hs_control_options;

HS_API hs_hook hs_control_hook(const hs_control_options *options);
#define hs_control(...) hs_control_hook(HS_OPTIONS(hs_control_options, __VA_ARGS__))

HS_END_DECLS

#endif
