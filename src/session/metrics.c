/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics: numbers about the model that hooks and the program publish. */
#include "session/services.h"
#include "session/session.h"

#include <string.h>

static hs__metric *find(const struct hs_session *session, const char *name)
{
    for (size_t i = 0; i < session->metrics.n; i++)
        if (strcmp(session->metrics.items[i].name, name) == 0)
            return &session->metrics.items[i];
    return NULL;
}

static hs_code add(struct hs_session *session, const char *name, hs__metric **added, hs_error *err)
{
    hs_code code = hs__reserve(&session->env, &session->metrics.items, &session->metrics.capacity, session->metrics.n + 1,
                               sizeof *session->metrics.items, err);
    if (code)
        return code;
    char *copy = hs__strdup(&session->env, name);
    if (!copy)
        return hs__no_memory(err, strlen(name), "a metric's name");
    *added = &session->metrics.items[session->metrics.n++];
    (*added)->name = copy;
    return HS_OK;
}

hs_code hs_raw_session_set_metric(hs_raw_session *raw, const char *name, double value, int64_t step, hs_error *err)
{
    hs__clear(err);
    if (!raw || !name || !*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_set_metric: %s",
                            raw ? "name is missing" : "session is NULL");
    hs__metric *metric = find(raw->owner, name);
    hs_code code = metric ? HS_OK : add(raw->owner, name, &metric, err);
    if (code)
        return code;
    metric->value = value;
    metric->step = step;
    metric->restores = raw->restores;
    return HS_OK;
}

/* Metrics from before a restore are not returned, because the steps after it repeat their step numbers. */
bool hs_raw_session_metric(const hs_raw_session *raw, const char *name, double *value, int64_t *step)
{
    const hs__metric *metric = raw && name ? find(raw->owner, name) : NULL;
    if (!metric || metric->restores != raw->restores)
        return false;
    if (value)
        *value = metric->value;
    if (step)
        *step = metric->step;
    return true;
}

void hs__raw_session_warn_of_unset_metric(const hs_raw_session *raw, const char *what, const char *name)
{
    if (find(raw->owner, name)) /* also before a restore */
        return;
    const bool is_tensor = !hs_backend_check_tensor(hs_raw_session_backend(raw), name, NULL);
    hs_log(&raw->owner->env, HS_LOG_WARNING, "%s: metric '%s' %s", what, name,
           is_tensor ? "is a tensor, and was never set as a metric" : "is not a tensor and was never set");
}

void hs__metrics_free(struct hs_session *session)
{
    for (size_t i = 0; i < session->metrics.n; i++)
        hs__free(&session->env, session->metrics.items[i].name);
    hs__free(&session->env, session->metrics.items);
}
