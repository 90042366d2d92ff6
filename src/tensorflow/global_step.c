/* SPDX-License-Identifier: Apache-2.0 */
/* The global step after a run, fetched by that very run. A fetch of the variable may be done before the run changes it, so
 * for each set of ops that change it there is a read which waits for them; a run that executes the set fetches its read. */
#include "tensorflow/tf_session.h"

#include <stdlib.h>
#include <string.h>

/* Who changes it? */

typedef enum {
    READS,
    WRITES, /* or may: once it has run, the step is what it left */
    HANDS_ON,
    ELUDES /* its users cannot be followed: some run in one branch only, or in a loop */
} use;

static use use_of_resource(const hs__tf_backend *backend, TF_Operation *user)
{
    static const char *const readers[] = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp",
                                          "VariableShape"};
    /* Once they are taken apart, what waits for them does not wait for what they have called. */
    static const char *const branches[] = {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"};
    const hs__tf_api *tf = &backend->tf;
    const char *type = tf->OperationOpType(user);
    if (hs__tf_is_among(type, readers, sizeof readers / sizeof *readers))
        return READS;
    if (hs__tf_is_among(type, branches, sizeof branches / sizeof *branches))
        return ELUDES;
    for (int i = 0; i < tf->OperationNumOutputs(user); i++)
        if (tf->OperationOutputType((TF_Output){user, i}) == TF_RESOURCE)
            return strcmp(type, "Identity") == 0 ? HANDS_ON : ELUDES;
    return WRITES;
}

static use use_of_reference(const hs__tf_backend *backend, TF_Operation *user)
{
    static const char *const writers[] = {"Assign", "AssignAdd", "AssignSub", "CountUpTo"};
    const hs__tf_api *tf = &backend->tf;
    if (hs__tf_is_among(tf->OperationOpType(user), writers, sizeof writers / sizeof *writers))
        return WRITES;
    for (int i = 0; i < tf->OperationNumOutputs(user); i++)
        if (hs__tf_is_reference(tf->OperationOutputType((TF_Output){user, i})))
            return ELUDES;
    return READS;
}

/* Its bit, which it keeps whatever is added to the graph. */
static uint64_t bit_of(hs__tf_step *step, TF_Operation *writer)
{
    size_t i = 0;
    while (i < step->n_writers && step->writers[i] != writer)
        i++;
    if (i == HS__TF_STEP_WRITERS)
        return HS__TF_STEP_ELUDES;
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
    hs_code code = hs__tf_users_of(backend, output, &users, &n, err);
    for (int i = 0; !code && i < n; i++) {
        TF_Operation *user = users[i].oper;
        use how = is_resource ? use_of_resource(backend, user) : use_of_reference(backend, user);
        bool follows = how == HANDS_ON || (how == WRITES && !is_resource && tf->OperationNumOutputs(user) > 0);
        if (how == ELUDES || (follows && depth == DEEPEST))
            *mask_of(&backend->step, user) |= HS__TF_STEP_ELUDES;
        else if (how == WRITES)
            *mask_of(&backend->step, user) |= bit_of(&backend->step, user);
        if (follows && depth < DEEPEST)
            code = mark_users(backend, (TF_Output){user, 0}, is_resource, depth + 1, err);
    }
    hs__free(&backend->env, users);
    return code;
}

/* Handles of one name are one variable. */

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

/* What each op, once it has run, has made others do. */

static bool is_switch(const char *type)
{
    static const char *const types[] = {"Switch", "RefSwitch", "_SwitchN"};
    return hs__tf_is_among(type, types, sizeof types / sizeof *types);
}

/* Runs whichever of its inputs is there. */
static bool is_merge(const char *type)
{
    static const char *const types[] = {"Merge", "RefMerge", "Exit", "RefExit"};
    return hs__tf_is_among(type, types, sizeof types / sizeof *types);
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
            (hs__tf_writes){.op = op, .mask = is_switch(backend->tf.OperationOpType(op)) ? HS__TF_STEP_SKIPS : 0};
    }
    qsort(step->ops, step->n_ops, sizeof *step->ops, by_address);
    return HS_OK;
}

static hs_code of_inputs(hs__tf_backend *backend, TF_Operation *op, uint64_t *mask, hs_error *err)
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

/* Ops are made after their inputs, but for those of loops: then once more. */
static hs_code spread(hs__tf_backend *backend, hs_error *err)
{
    for (bool changed = true; changed;) {
        size_t at = 0;
        TF_Operation *op;
        changed = false;
        while ((op = backend->tf.GraphNextOperation(backend->graph, &at))) {
            uint64_t *mask = mask_of(&backend->step, op), before = *mask;
            hs_code code = of_inputs(backend, op, mask, err);
            if (code)
                return code;
            if (*mask & HS__TF_STEP_SKIPS && is_merge(backend->tf.OperationOpType(op)))
                *mask &= ~HS__TF_STEP_SKIPS;
            if (*mask & HS__TF_STEP_SKIPS && is_writer(&backend->step, op))
                *mask |= HS__TF_STEP_ELUDES;
            changed |= *mask != before;
        }
    }
    return HS_OK;
}

static hs_code look_at_graph(hs__tf_backend *backend, hs_error *err)
{
    const hs__tf_variable *variable = &backend->variables[backend->global_step];
    if (backend->step.as == backend->changes)
        return HS_OK;
    hs_code code = list_ops(backend, err);
    if (!code)
        code = mark_all_users(backend, variable, err);
    if (!code && !(code = spread(backend, err)))
        backend->step.as = backend->changes;
    return code;
}

/* Adds the ops that change the step, of those which an op makes run, itself among them. */
static hs_code add_writers_of(hs__tf_backend *backend, hs__tf_op *op, uint64_t *mask, hs_error *err)
{
    if (op->writes_step_as != backend->changes) {
        hs_code code = look_at_graph(backend, err);
        if (code)
            return code;
        op->writes_step = *mask_of(&backend->step, op->op) & ~HS__TF_STEP_SKIPS;
        op->writes_step_as = backend->changes;
    }
    *mask |= op->writes_step;
    return HS_OK;
}

/* Reads that wait. */

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

static hs_code make_read(hs__tf_backend *backend, uint64_t mask, TF_Output *read, hs_error *err)
{
    hs__tf_step *step = &backend->step;
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

static hs_code read_after(hs__tf_backend *backend, uint64_t mask, TF_Output *read, hs_error *err)
{
    for (size_t i = 0; i < backend->step.n_reads; i++)
        if (backend->step.reads[i].mask == mask) {
            *read = backend->step.reads[i].read;
            return HS_OK;
        }
    return make_read(backend, mask, read, err);
}

/* A run. */

/* What is fed is not computed, nor what only it would have made run: with that the read would run it all the same. */
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
        *mask = HS__TF_STEP_ELUDES;
    return code;
}

hs_code hs__tf_step_in(hs__tf_session *session, const hs_backend_call *call, TF_Output *read, hs_error *err)
{
    hs__tf_backend *backend = session->link->backend;
    uint64_t mask;
    *read = (TF_Output){NULL, 0};
    if (session->forked || backend->global_step == HS__NONE)
        return HS_OK;
    hs_code code = writers_in(backend, call, &mask, err);
    if (code || (!mask && !hs__tf_is_shared(session->link)))
        return code; /* it stays what it is */
    session->knows_step = false;
    return mask && !(mask & HS__TF_STEP_ELUDES) ? read_after(backend, mask, read, err) : HS_OK;
}

void hs__tf_take_step(hs__tf_session *session, const TF_Tensor *tensor)
{
    const hs__tf_api *tf = &session->link->backend->tf;
    int32_t narrow;
    if (tf->TensorByteSize(tensor) == sizeof narrow) {
        memcpy(&narrow, tf->TensorData(tensor), sizeof narrow);
        session->step = narrow;
    } else {
        memcpy(&session->step, tf->TensorData(tensor), sizeof session->step);
    }
    session->knows_step = true;
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
    hs__tf_take_step(session, tensor);
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
    hs_code code = session->knows_step ? HS_OK : fetch_step(session, err);
    if (code)
        return code;
    *step = session->step;
    session->knows_step = !hs__tf_is_shared(session->link); /* others may change it at any time */
    return HS_OK;
}

void hs__tf_free_step(hs__tf_backend *backend)
{
    hs__free(&backend->env, backend->step.ops);
    hs__free(&backend->env, (void *)backend->step.controls);
    hs__free(&backend->env, backend->step.reads);
}
