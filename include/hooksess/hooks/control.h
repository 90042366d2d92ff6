/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_CONTROL_H
#define HOOKSESS_HOOKS_CONTROL_H

#include <hooksess/hook.h>

/* Orders to a training that runs, from its owner: a file, or a FIFO, that this hook looks for. Beyond TensorFlow.
 *
 * One order a line:
 *   save             has it saved (hs_raw_session_request_save)
 *   stop             stops it before it is done (hs_outcome.interrupted)
 *   set NAME=VALUE   gives one of the program's knobs another value: a number as JSON writes it (0.001, 1e-3), or true,
 *                    false
 * Empty lines are nothing. What is no order, names no knob, is out of its limits or longer than 1000 bytes, or has no end
 * (it may be cut) is refused with a line in the log; the other lines are carried out.
 *
 * A file is renamed aside (PATH.taken), read and removed, so that each is read once. Write it elsewhere in the same
 * directory and move it into place, as this alone is sure not to be read half-written:
 *     echo 'set learning_rate=0.001' > model/order && chmod go-w model/order && mv model/order model/control
 * An empty file is left until there is something in it. A FIFO (mkfifo -m 600 model/control) is kept open, and read as long
 * as it is there: echo save > model/control. Nobody makes either: there need be none. What is there when the training
 * starts is carried out after its first step.
 *
 * It must be the own one of the user the process runs as, and nobody else may write to it (no mode bits of 022): a symbolic
 * link, a file with another hard link, a directory, a device, more than 64 KiB are refused where they are, with one line in
 * the log. Whoever can write to the directory itself can stop the training in other ways.
 *
 * It is looked at after a training run, once poll_secs have passed; the run pays for a look at the session's clock
 * (hs_run_context_now, shared with all hooks that go by time). It goes through the operating system, whatever
 * hs_env.files is. */

HS_BEGIN_DECLS

typedef enum hs_knob_kind {
    HS_KNOB_NUMBER = 0,  /* a double */
    HS_KNOB_INTEGER = 1, /* an int64_t; within +-2^53 */
    HS_KNOB_BOOL = 2     /* a bool: true, false, 1, 0 */
} hs_knob_kind;

/* A value of a knob, in the member of the knob's kind. Frozen. */
typedef union hs_knob_value {
    double number;   /* HS_KNOB_NUMBER */
    int64_t integer; /* HS_KNOB_INTEGER */
    bool truth;      /* HS_KNOB_BOOL */
} hs_knob_value;

/* A number of the program's that may be changed while it trains. Frozen. */
typedef struct hs_knob {
    const char *name; /* (required) unique; of letters, digits and "_-./"; at most 64 bytes; copied */
    hs_knob_kind kind;
    int32_t reserved_kind;
    /* Where it is, which must outlive the session. May be a variable's memory. May be NULL where there is a function */
    void *value;
    /* Called with each new value that is within the limits, before it is written to `value`, on the session's thread,
     * between runs, or while the session is opened. A failure refuses the value. May be NULL where there is a `value`. */
    hs_code (*set)(void *user, hs_knob_value value, hs_error *err);
    void *user;
    double min, max; /* both 0: any finite value */
    unsigned char reserved[16];
} hs_knob;

/* .knobs = HS_KNOBS({.name = "rate", .value = &rate, .max = 1}, ...). A named array ends with {0}. */
#define HS_KNOBS(...) HS__LIST(hs_knob, __VA_ARGS__, {.name = NULL})

/* A new value holds from the next run on. It is a line in the log (name, old and new value, step) and, with summary_dir, a
 * scalar "control/NAME" at the step.
 *
 * Values that were set ride in the checkpoint, and are put back when it is restored: the resumed run goes on with what the
 * earlier one had. A knob that was never set keeps what the program gave it. Where training goes back to a checkpoint of
 * before a value was set (a recovery, a rollback), that is undone, and the log says so; a knob that has only a function
 * keeps its value then. What is in the checkpoint under a name that is no knob any more, or outside its limits now, is
 * skipped with a line in the log. List it before savers. */
typedef struct hs_control_options {
    size_t size;
    const char *path;        /* (required) of the file: "MODEL_DIR/control" */
    const hs_knob *knobs;    /* HS_KNOBS(...). NULL: none */
    double poll_secs;        /* seconds between looks. 0: 1 */
    const char *summary_dir; /* changes are written to the session's event file there. NULL: none */
    const hs_env *env;       /* NULL: the system's. Copied */
} hs_control_options;

/* Threads: any. The session's thread calls the knobs' functions. */
HS_API hs_hook hs_control_hook(const hs_control_options *options);
#define hs_control(...) hs_control_hook(HS_OPTIONS(hs_control_options, __VA_ARGS__))

HS_END_DECLS

#endif
