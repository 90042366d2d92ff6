/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_METRICS_BOARD_H
#define HS_HOOKS_METRICS_BOARD_H

#include <hooksess/hook.h>

/* What was last said of a metric of the session's board. A restore clears the board, so that what no row has shown yet
 * rides in the checkpoint. */
typedef struct hs__metric_said {
    int64_t known, shown; /* 0 or 1: something was said; it stands in a row */
    int64_t step;
    double value;
} hs__metric_said;

/* As many as there are names. */
typedef struct hs__metrics_board {
    const char *const *names;
    hs__metric_said *said;
    size_t n;
} hs__metrics_board;

void hs__metrics_board_clear(hs__metrics_board *board);
/* Looks what was said since. */
void hs__metrics_board_look(hs__metrics_board *board, const hs_raw_session *session);
/* What is to be shown now, and from now on counts as shown. False: nothing new. */
bool hs__metrics_board_take(hs__metrics_board *board, size_t index, double *value, int64_t *step);
hs_code hs__metrics_board_save(const hs__metrics_board *board, hs_state_writer *out, hs_error *err);
/* Of other metrics than these nothing is known afterwards. */
hs_code hs__metrics_board_load(hs__metrics_board *board, hs_state_reader *in, hs_error *err);

#endif
