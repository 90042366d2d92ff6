/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_BACKGROUND_H
#define HS_CHECKPOINT_BACKGROUND_H

#include "checkpoint/snapshot.h"

/* Saves that a thread of the saver's makes from a copy of the state, one at a time. While one is on its way the saver is
 * the thread's: whatever else is asked of the saver waits for it first. */

typedef struct hs__background hs__background;

/* Copies the state, or what has to be copied at once of it, and hands it to the thread. `options` are complete. */
hs_code hs__background_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                            const hs_save_options *options, hs_error *err);
/* Waits until nothing is on its way. */
void hs__background_wait(const hs_saver *saver);
/* Waits, and ends the thread. */
void hs__background_free(hs_saver *saver);

/* save.c. A save in the foreground. */
hs_code hs__save_session(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                         const hs_save_options *options, hs_error *err);
/* A save from an image. `cancelled` is asked from time to time until the checkpoint exists: CANCELLED. */
hs_code hs__save_image(hs_saver *saver, const hs__image *image, const char *prefix, int64_t step,
                       const hs_save_options *options, bool (*cancelled)(void *user), void *user, hs_error *err);

#endif
