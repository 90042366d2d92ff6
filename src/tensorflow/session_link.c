/* SPDX-License-Identifier: Apache-2.0 */
/* The TF_Session that a session and its forks share: its references, and the errors of its runs. */
#include "tensorflow/tf_session.h"

#include <string.h>

void hs__tf_release_link(hs__tf_link *link)
{
    if (atomic_fetch_sub(&link->references, 1) != 1)
        return;
    hs__tf_watch_end(link); /* if opening the session failed */
    hs__tf_backend *backend = link->backend;
    if (link->session) {
        TF_Status *status = backend->tf.NewStatus();
        backend->tf.DeleteSession(link->session, status);
        backend->tf.DeleteStatus(status);
    }
    hs__tf_cluster_free(&link->peers);
    hs__free(&backend->env, link);
    hs__tf_release(backend);
}

/* Returns the code of a cancelled run. If several parts of a run fail, TensorFlow returns the code of one of them, which
 * may be a part that was cancelled because a task was lost. The message has the errors of all parts. */
static hs_code find_cause(const hs__tf_session *session)
{
    const char *message = session->link->backend->tf.Message(session->status);
    if (strstr(message, "UNAVAILABLE: From /job:"))
        return HS_UNAVAILABLE;
    return strstr(message, "ABORTED: From /job:") ? HS_ABORTED : HS_CANCELLED;
}

hs_code hs__tf_run_result(const hs__tf_session *session, hs_error *err)
{
    hs_code code = hs__tf_check_status(&session->link->backend->tf, session->status, err);
    hs_error lost = {0};
    if (code == HS_CANCELLED) {
        code = find_cause(session);
        if (err)
            err->code = code;
    }
    if (code != HS_DEADLINE_EXCEEDED || hs__tf_probe_tasks(&session->link->peers, &lost) != HS_UNAVAILABLE)
        return code;
    atomic_store(&session->link->peer_lost, true);
    hs_error_prefix(&lost, "the run timed out");
    return hs__error_copy(err, &lost), HS_UNAVAILABLE;
}

hs_code hs__tf_check_peers(hs__tf_link *link, hs_error *err)
{
    if (!atomic_load(&link->peer_lost))
        return HS_OK;
    hs_code code = hs__tf_probe_tasks(&link->peers, err);
    if (!code)
        atomic_store(&link->peer_lost, false);
    return code;
}
