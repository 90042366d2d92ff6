/* SPDX-License-Identifier: Apache-2.0 */
/* The global step after a run, fetched by the same run. A plain fetch of the variable may happen before the run changes it.
 * So for each set of ops that change it (its writers), the graph gets a read with control inputs from them. A run that
 * executes exactly this set fetches this read. */
#include "tensorflow/tf_session.h"

#include <stdlib.h>
#include <string.h>

/* Find the ops that change the global step. */

typedef enum {
    READS,
    WRITES,   /* or may write; once the op has run, its change is visible */
    FORWARDS, /* its output is the variable again */
    UNKNOWN   /* its consumers cannot be followed, for example in a branch or in a loop */
} use;

static use use_of_resource(const hs__tf_backend *backend, TF_Operation *user)
{
    static const char *const readers[] = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp",
                                          "VariableShape"};
    /* TensorFlow inlines these: ops with a control input from them do not wait for the ops of the branches. */
    static const char *const branches[] = {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"};
    const hs__tf_api *tf = &backend->tf;
    const char *type = tf->OperationOpType(user);
    if (hs__tf_type_in(type, readers, sizeof readers / sizeof *readers))
        return READS;
    if (hs__tf_type_in(type, branches, sizeof branches / sizeof *branches))
        return UNKNOWN;
    for (int i = 0; i < tf->OperationNumOutputs(user); i++)
        if (tf->OperationOutputType((TF_Output){user, i}) == TF_RESOURCE)
            return strcmp(type, "Identity") == 0 ? FORWARDS : UNKNOWN;
    return WRITES;
}

static use use_of_reference(const hs__tf_backend *backend, TF_Operation *user)
{
    static const char *const writers[] = {"Assign", "AssignAdd", "AssignSub", "CountUpTo"};
    const hs__tf_api *tf = &backend->tf;
    if (hs__tf_type_in(tf->OperationOpType(user), writers, sizeof writers / sizeof *writers))
        return WRITES;
    for (int i = 0; i < tf->OperationNumOutputs(user); i++)
        if (hs__tf_is_reference(tf->OperationOutputType((TF_Output){user, i})))
            return UNKNOWN;
    return READS;
}

/* Returns the writer's bit, which never changes. UNKNOWN: there are too many writers. */
static uint64_t bit_of(hs__tf_step *step, TF_Operation *writer)
{
    size_t i = 0;
    while (i < step->n_writers && step->writers[i] != writer)
        i++;
    if (i == HS__TF_STEP_WRITERS)
        return HS__TF_STEP_UNKNOWN;
    step->writers[i] = writer;
    if (i == step->n_writers)
        step->n_writers++;
    return UINT64_C(1) << i;
}

static int by_address(const void *a, const void *b)
{
    const hs__tf_writes *left = a, *right = b;
    return ((uintptr_t)left->op > (uintptr_t)right->op) - ((uintptr_t)left->op < (uintptr_t)right->op);
}

static uint64_t *mask_of(const hs__tf_step *step, TF_Operation *op)
{
    hs__tf_writes *found = bsearch(&(hs__tf_writes){.op = op}, step->ops, step->n_ops, sizeof *step->ops, by_address);
    return &found->mask;
}

static hs_code mark_users(hs__tf_backend *backend, TF_Output output, bool is_resource, int depth, hs_error *err)
{
    enum { DEEPEST = 16 };
    const hs__tf_api *tf = &backend->tf;
    TF_Input *users;
    int n;
    hs_code code = hs__tf_consumers(backend, output, &users, &n, err);
    for (int i = 0; !code && i < n; i++) {
        TF_Operation *user = users[i].oper;
        use how = is_resource ? use_of_resource(backend, user) : use_of_reference(backend, user);
        bool follows = how == FORWARDS || (how == WRITES && !is_resource && tf->OperationNumOutputs(user) > 0);
        if (how == UNKNOWN || (follows && depth == DEEPEST))
            *mask_of(&backend->step, user) |= HS__TF_STEP_UNKNOWN;
        else if (how == WRITES)
            *mask_of(&backend->step, user) |= bit_of(&backend->step, user);
        if (follows && depth < DEEPEST)
            code = mark_users(backend, (TF_Output){user, 0}, is_resource, depth + 1, err);
    }
    hs__free(&backend->env, users);
    return code;
}

/* Handles with the same name are the same variable. */

static void name_of(const hs__tf_backend *backend, TF_Operation *handle, char *name, size_t bytes)
{
    const hs__tf_api *tf = &backend->tf;
    TF_Status *status = tf->NewStatus();
    memset(name, 0, bytes);
    tf->OperationGetAttrString(handle, "shared_name", name, bytes, status);
    if (tf->GetCode(status) != TF_OK || !*name)
        strncpy(name, tf->OperationName(handle), bytes - 1);
    tf->DeleteStatus(status);
}

static hs_code mark_all_users(hs__tf_backend *backend, const hs__tf_variable *variable, hs_error *err)
{
    enum { COMPARED = 256 };
    const hs__tf_api *tf = &backend->tf;
    const char *type = tf->OperationOpType(variable->handle);
    char name[COMPARED], other[COMPARED];
    hs_code code = HS_OK;
    size_t at = 0;
    TF_Operation *op;
    name_of(backend, variable->handle, name, sizeof name);
    while (!code && (op = tf->GraphNextOperation(backend->graph, &at))) {
        if (strcmp(tf->OperationOpType(op), type) != 0)
            continue;
        name_of(backend, op, other, sizeof other);
        if (memcmp(name, other, sizeof name) == 0)
            code = mark_users(backend, (TF_Output){op, 0}, variable->is_resource, 0, err);
    }
    return code;
}

/* Find the writers that run with each op. */

static bool is_switch(const char *type)
{
    static const char *const types[] = {"Switch", "RefSwitch", "_SwitchN"};
    return hs__tf_type_in(type, types, sizeof types / sizeof *types);
}

/* Runs if one of its inputs exists. */
static bool is_merge(const char *type)
{
    static const char *const types[] = {"Merge", "RefMerge", "Exit", "RefExit"};
    return hs__tf_type_in(type, types, sizeof types / sizeof *types);
}

static bool is_writer(const hs__tf_step *step, const TF_Operation *op)
{
    for (size_t i = 0; i < step->n_writers; i++)
        if (step->writers[i] == op)
            return true;
    return false;
}

static hs_code list_ops(hs__tf_backend *backend, hs_error *err)
{
    hs__tf_step *step = &backend->step;
    size_t at = 0;
    TF_Operation *op;
    step->n_ops = 0;
    while ((op = backend->tf.GraphNextOperation(backend->graph, &at))) {
        hs_code code = hs__reserve(&backend->env, &step->ops, &step->ops_capacity, step->n_ops + 1, sizeof *step->ops, err);
        if (code)
            return code;
        step->ops[step->n_ops++] =
            (hs__tf_writes){.op = op, .mask = is_switch(backend->tf.OperationOpType(op)) ? HS__TF_STEP_CONDITIONAL : 0};
    }
    qsort(step->ops, step->n_ops, sizeof *step->ops, by_address);
    return HS_OK;
}

/* Adds the masks of the op's inputs. */
static hs_code add_inputs(hs__tf_backend *backend, TF_Operation *op, uint64_t *mask, hs_error *err)
{
    const hs__tf_api *tf = &backend->tf;
    hs__tf_step *step = &backend->step;
    for (int i = 0; i < tf->OperationNumInputs(op); i++)
        *mask |= *mask_of(step, tf->OperationInput((TF_Input){op, i}).oper);
    int n = tf->OperationNumControlInputs(op);
    hs_code code =
        hs__reserve(&backend->env, &step->controls, &step->controls_capacity, (size_t)n, sizeof *step->controls, err);
    if (code || !n)
        return code;
    n = tf->OperationGetControlInputs(op, step->controls, n);
    for (int i = 0; i < n; i++)
        *mask |= *mask_of(step, step->controls[i]);
    return HS_OK;
}

/* Propagates the masks. Ops are listed after their inputs, except in loops, which need another pass. */
static hs_code propagate(hs__tf_backend *backend, hs_error *err)
{
    for (bool changed = true; changed;) {
        size_t at = 0;
        TF_Operation *op;
        changed = false;
        while ((op = backend->tf.GraphNextOperation(backend->graph, &at))) {
            uint64_t *mask = mask_of(&backend->step, op), before = *mask;
            hs_code code = add_inputs(backend, op, mask, err);
            if (code)
                return code;
            if (*mask & HS__TF_STEP_CONDITIONAL && is_merge(backend->tf.OperationOpType(op)))
                *mask &= ~HS__TF_STEP_CONDITIONAL;
            if (*mask & HS__TF_STEP_CONDITIONAL && is_writer(&backend->step, op))
                *mask |= HS__TF_STEP_UNKNOWN;
            changed |= *mask != before;
        }
    }
    return HS_OK;
}

static hs_code update_masks(hs__tf_backend *backend, hs_error *err)
{
    const hs__tf_variable *variable = &backend->variables[backend->global_step];
    if (backend->step.generation == backend->generation)
        return HS_OK;
    hs_code code = list_ops(backend, err);
    if (!code)
        code = mark_all_users(backend, variable, err);
    if (!code && !(code = propagate(backend, err)))
        backend->step.generation = backend->generation;
    return code;
}

/* Adds the writers that run if `op` is fetched, including `op`. */
static hs_code add_writers_of(hs__tf_backend *backend, hs__tf_op *op, uint64_t *mask, hs_error *err)
{
    if (op->writes_step_generation != backend->generation) {
        hs_code code = update_masks(backend, err);
        if (code)
            return code;
        op->writes_step = *mask_of(&backend->step, op->op) & ~HS__TF_STEP_CONDITIONAL;
        op->writes_step_generation = backend->generation;
    }
    *mask |= op->writes_step;
    return HS_OK;
}

/* Reads with control inputs. */

static TF_Output add_read(hs__tf_builder *builder, uint64_t mask)
{
    static const char name[] = "hooksess/global_step";
    hs__tf_backend *backend = builder->backend;
    const hs__tf_variable *variable = &backend->variables[backend->global_step];
    TF_OperationDescription *op =
        hs__tf_begin_read(builder, name, variable->handle, (TF_DataType)variable->dtype, variable->is_resource);
    if (!op)
        return (TF_Output){NULL, 0};
    for (size_t i = 0; i < backend->step.n_writers; i++)
        if (mask >> i & 1)
            backend->tf.AddControlInput(op, backend->step.writers[i]);
    return hs__tf_finish_op(builder, op);
}

/* Sets *read to the read after the ops of `mask`. Adds it to the graph in the first run that needs it. */
static hs_code read_after(hs__tf_backend *backend, uint64_t mask, TF_Output *read, hs_error *err)
{
    hs__tf_step *step = &backend->step;
    for (size_t i = 0; i < step->n_reads; i++)
        if (step->reads[i].mask == mask) {
            *read = step->reads[i].read;
            return HS_OK;
        }
    hs__tf_builder builder;
    hs_error error = {0};
    hs_code code =
        hs__reserve(&backend->env, &step->reads, &step->reads_capacity, step->n_reads + 1, sizeof *step->reads, err);
    if (code)
        return code;
    hs__tf_builder_begin(&builder, backend, &error);
    *read = add_read(&builder, mask);
    if ((code = hs__tf_builder_end(&builder)) == HS_RESOURCE_EXHAUSTED)
        return hs__error_copy(err, &error);
    if (code)
        hs_log(&backend->env, HS_LOG_DEBUG, "the global step is read in a separate run: %s", error.message);
    step->reads[step->n_reads++] = (hs__tf_step_read){mask, *read};
    return HS_OK;
}

/* A run. */

/* Sets *mask to the ops of the run that write the global step. HS__TF_STEP_UNKNOWN if a fed output depends on such an op:
 * the feed may replace the op, so it would not run, but as a control input of the read it would. */
static hs_code writers_in(hs__tf_backend *backend, const hs_backend_call *call, uint64_t *mask, hs_error *err)
{
    hs_code code = HS_OK;
    uint64_t fed = 0;
    *mask = 0;
    for (size_t i = 0; !code && i < call->n_fetches; i++)
        code = add_writers_of(backend, call->fetches[i].op, mask, err);
    for (size_t i = 0; !code && *mask && i < call->n_feeds; i++)
        code = add_writers_of(backend, call->feeds[i].node.op, &fed, err);
    if (fed)
        *mask = HS__TF_STEP_UNKNOWN;
    return code;
}

hs_code hs__tf_plan_step(hs__tf_session *session, const hs_backend_call *call, TF_Output *read, hs_error *err)
{
    hs__tf_backend *backend = session->link->backend;
    uint64_t mask;
    *read = (TF_Output){NULL, 0};
    if (session->forked || backend->global_step == HS__NONE)
        return HS_OK;
    hs_code code = writers_in(backend, call, &mask, err);
    if (code || (!mask && !hs__tf_is_shared(session->link)))
        return code; /* the run does not change the step */
    session->step_known = false;
    return mask && !(mask & HS__TF_STEP_UNKNOWN) ? read_after(backend, mask, read, err) : HS_OK;
}

void hs__tf_store_step(hs__tf_session *session, const TF_Tensor *tensor)
{
    const hs__tf_api *tf = &session->link->backend->tf;
    int32_t narrow;
    if (tf->TensorByteSize(tensor) == sizeof narrow) {
        memcpy(&narrow, tf->TensorData(tensor), sizeof narrow);
        session->step = narrow;
    } else {
        memcpy(&session->step, tf->TensorData(tensor), sizeof session->step);
    }
    session->step_known = true;
}

static hs_code fetch_step(hs__tf_session *session, hs_error *err)
{
    const hs__tf_backend *backend = session->link->backend;
    TF_Tensor *tensor;
    hs_code code = hs__tf_fetch(session, &backend->variables[backend->global_step].value, &tensor, 1, err);
    if (code == HS_NOT_FOUND || code == HS_FAILED_PRECONDITION)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the global step is not initialized");
    if (code)
        return code;
    hs__tf_store_step(session, tensor);
    backend->tf.DeleteTensor(tensor);
    return HS_OK;
}

hs_code hs__tf_read_step(void *self, int64_t *step, hs_error *err)
{
    hs__tf_session *session = self;
    if (session->link->backend->global_step == HS__NONE)
        return hs_error_set(
            err, HS_FAILED_PRECONDITION,
            "the graph has no global step; create one before the export (tf.train.get_or_create_global_step in Python)");
    hs_code code = session->step_known ? HS_OK : fetch_step(session, err);
    if (code)
        return code;
    *step = session->step;
    session->step_known = !hs__tf_is_shared(session->link); /* others may change it at any time */
    return HS_OK;
}
