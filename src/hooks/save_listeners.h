/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_SAVE_LISTENERS_H
#define HS_HOOKS_SAVE_LISTENERS_H

#include <hooksess/hooks/checkpoint_saver.h>

/* Who is told of the saves of a checkpoint saver. */
typedef struct hs__listeners {
    hs_saver_listener *items;
    hs_saver_listener_ops *ops; /* their functions, complete */
    size_t n;
} hs__listeners;

hs_code hs__listeners_take(hs__listeners *to, const hs_env *env, const hs_saver_listener *from, hs_error *err);
void hs__listeners_free(hs__listeners *listeners, const hs_env *env);

/* The first that fails ends it, and is named. */
hs_code hs__listeners_begin(const hs__listeners *listeners, hs_error *err);
hs_code hs__listeners_before_save(const hs__listeners *listeners, hs_raw_session *session, int64_t step, hs_error *err);
/* Asks the run to stop if one of them wants that. */
hs_code hs__listeners_after_save(const hs__listeners *listeners, hs_run_context *run, int64_t step, hs_error *err);
hs_code hs__listeners_end(const hs__listeners *listeners, hs_raw_session *session, int64_t step, hs_error *err);

#endif
