/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorflow/stand_in/kernel.h"
#include "support/test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Declarations from TensorFlow's headers for ops and kernels, which compile only as C++. */
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;

static struct {
    TF_OpDefinitionBuilder *(*NewOpDefinitionBuilder)(const char *name);
    void (*OpDefinitionBuilderAddAttr)(TF_OpDefinitionBuilder *builder, const char *spec);
    void (*OpDefinitionBuilderAddInput)(TF_OpDefinitionBuilder *builder, const char *spec);
    void (*OpDefinitionBuilderAddOutput)(TF_OpDefinitionBuilder *builder, const char *spec);
    void (*OpDefinitionBuilderSetIsStateful)(TF_OpDefinitionBuilder *builder, bool is_stateful);
    void (*OpDefinitionBuilderSetShapeInferenceFunction)(TF_OpDefinitionBuilder *builder,
                                                         void (*infer)(TF_ShapeInferenceContext *ctx, TF_Status *status));
    void (*RegisterOpDefinition)(TF_OpDefinitionBuilder *builder, TF_Status *status);
    void (*ShapeInferenceContextSetUnknownShape)(TF_ShapeInferenceContext *ctx, TF_Status *status);
    TF_KernelBuilder *(*NewKernelBuilder)(const char *op, const char *device, void *(*create)(TF_OpKernelConstruction *ctx),
                                          void (*compute)(void *kernel, TF_OpKernelContext *ctx),
                                          void (*end)(void *kernel));
    void (*RegisterKernelBuilder)(const char *name, TF_KernelBuilder *builder, TF_Status *status);
    void (*OpKernelConstruction_GetAttrInt64)(TF_OpKernelConstruction *ctx, const char *name, int64_t *value,
                                              TF_Status *status);
    int (*NumInputs)(TF_OpKernelContext *ctx);
    int (*NumOutputs)(TF_OpKernelContext *ctx);
    void (*GetInput)(TF_OpKernelContext *ctx, int i, TF_Tensor **tensor, TF_Status *status);
    void (*SetOutput)(TF_OpKernelContext *ctx, int i, const TF_Tensor *tensor, TF_Status *status);
    void (*OpKernelContext_Failure)(TF_OpKernelContext *ctx, TF_Status *status);
    TF_Status *(*NewStatus)(void);
    void (*DeleteStatus)(TF_Status *status);
    void (*SetStatus)(TF_Status *status, TF_Code code, const char *message);
    TF_Code (*GetCode)(const TF_Status *status);
    const char *(*Message)(const TF_Status *status);
} tf;

static const struct {
    const char *name;
    void *function;
} functions[] = {
#define FUNCTION(name)                                                                                                     \
    {                                                                                                                      \
        "TF_" #name, &tf.name                                                                                              \
    }
    FUNCTION(NewOpDefinitionBuilder),
    FUNCTION(OpDefinitionBuilderAddAttr),
    FUNCTION(OpDefinitionBuilderAddInput),
    FUNCTION(OpDefinitionBuilderAddOutput),
    FUNCTION(OpDefinitionBuilderSetIsStateful),
    FUNCTION(OpDefinitionBuilderSetShapeInferenceFunction),
    FUNCTION(RegisterOpDefinition),
    FUNCTION(ShapeInferenceContextSetUnknownShape),
    FUNCTION(NewKernelBuilder),
    FUNCTION(RegisterKernelBuilder),
    FUNCTION(OpKernelConstruction_GetAttrInt64),
    FUNCTION(NumInputs),
    FUNCTION(NumOutputs),
    FUNCTION(GetInput),
    FUNCTION(SetOutput),
    FUNCTION(OpKernelContext_Failure),
    FUNCTION(NewStatus),
    FUNCTION(DeleteStatus),
    FUNCTION(SetStatus),
    FUNCTION(GetCode),
    FUNCTION(Message),
#undef FUNCTION
};

enum { MOST_INPUTS = 16, MOST_STRINGS = 64, MOST_TARGETS = 4096 };

static kernel_target *targets[MOST_TARGETS];

void kernel_add(kernel_target *target)
{
    size_t i = 0;
    while (targets[i])
        assert_true(++i < MOST_TARGETS);
    targets[i] = target;
    target->number = i;
}

void kernel_remove(const kernel_target *target)
{
    targets[target->number] = NULL;
}

/* The functions of a test expect one thread. */
static pthread_mutex_t computing = PTHREAD_MUTEX_INITIALIZER;

static void *create(TF_OpKernelConstruction *ctx)
{
    int64_t target = 0;
    TF_Status *status = tf.NewStatus();
    tf.OpKernelConstruction_GetAttrInt64(ctx, "target", &target, status);
    tf.DeleteStatus(status);
    return targets[target];
}

static void end(void *kernel)
{
    (void)kernel;
}

static hs_code set_output(const kernel_target *target, TF_OpKernelContext *ctx, const hs_tensor *output, TF_Status *status,
                          hs_error *err)
{
    const hs__tf_backend *backend = hs__tf_of(target->tf);
    TF_Tensor *tensor = hs__tf_copy_in(backend, output, err);
    if (!tensor)
        return HS_RESOURCE_EXHAUSTED;
    tf.SetOutput(ctx, 0, tensor, status);
    backend->tf.DeleteTensor(tensor);
    return HS_OK;
}

static hs_code compute_target(kernel_target *target, TF_OpKernelContext *ctx, TF_Status *status, hs_error *err)
{
    const hs__tf_backend *backend = hs__tf_of(target->tf);
    TF_Tensor *given[MOST_INPUTS];
    hs_tensor inputs[MOST_INPUTS], output = {.data = NULL};
    hs_string strings[MOST_INPUTS][MOST_STRINGS];
    size_t n = (size_t)tf.NumInputs(ctx), got = 0;
    hs_code code = n > MOST_INPUTS ? hs_error_set(err, HS_INTERNAL, "a kernel of the tests has too many inputs") : HS_OK;
    for (; !code && got < n; got++) {
        tf.GetInput(ctx, (int)got, &given[got], status);
        code = hs__tf_count_strings(backend, given[got]) > MOST_STRINGS
                   ? hs_error_set(err, HS_INTERNAL, "a kernel of the tests has too many strings")
                   : hs__tf_view(backend, given[got], strings[got], "an input", &inputs[got], err);
    }
    bool has_output = tf.NumOutputs(ctx) > 0;
    if (!code && !(code = target->run(target, inputs, n, has_output ? &output : NULL, err)) && has_output)
        code = set_output(target, ctx, &output, status, err);
    while (got > 0)
        backend->tf.DeleteTensor(given[--got]);
    return code;
}

static void compute(void *kernel, TF_OpKernelContext *ctx)
{
    hs_error err = {0};
    TF_Status *status = tf.NewStatus();
    pthread_mutex_lock(&computing);
    hs_code code = compute_target(kernel, ctx, status, &err);
    pthread_mutex_unlock(&computing);
    if (code)
        tf.SetStatus(status, code <= HS_UNAUTHENTICATED ? (TF_Code)code : TF_UNKNOWN, err.message);
    if (tf.GetCode(status) != TF_OK)
        tf.OpKernelContext_Failure(ctx, status);
    tf.DeleteStatus(status);
}

static void infer(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    tf.ShapeInferenceContextSetUnknownShape(ctx, status);
}

static void nothing_to_infer(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    (void)ctx, (void)status;
}

static void define(const char *name, bool has_output, TF_Status *status)
{
    TF_OpDefinitionBuilder *op = tf.NewOpDefinitionBuilder(name);
    tf.OpDefinitionBuilderAddAttr(op, "target: int");
    tf.OpDefinitionBuilderAddAttr(op, has_output ? "dtype: type" : "Tin: list(type) >= 0");
    if (has_output)
        tf.OpDefinitionBuilderAddOutput(op, "value: dtype");
    else
        tf.OpDefinitionBuilderAddInput(op, "in: Tin");
    tf.OpDefinitionBuilderSetIsStateful(op, true);
    tf.OpDefinitionBuilderSetShapeInferenceFunction(op, has_output ? infer : nothing_to_infer);
    tf.RegisterOpDefinition(op, status);
    if (tf.GetCode(status) == TF_OK)
        tf.RegisterKernelBuilder(name, tf.NewKernelBuilder(name, "CPU", create, compute, end), status);
}

static hs_code look_up(void *library, hs_error *err)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = library ? dlsym(library, functions[i].name) : NULL;
        if (!address)
            return hs_error_set(err, HS_FAILED_PRECONDITION, "TensorFlow has no function %s", functions[i].name);
        memcpy(functions[i].function, &address, sizeof address);
    }
    return HS_OK;
}

hs_code kernel_register(hs_error *err)
{
    static bool done;
    hs_code code = done ? HS_OK : look_up(dlopen("libtensorflow_framework.so.2", RTLD_NOW | RTLD_NOLOAD), err);
    if (done || code)
        return code;
    TF_Status *status = tf.NewStatus();
    define("HooksessCall", false, status);
    if (tf.GetCode(status) == TF_OK)
        define("HooksessValue", true, status);
    if (tf.GetCode(status) != TF_OK)
        code = hs_error_set(err, HS_INTERNAL, "%s", tf.Message(status));
    done = !code;
    tf.DeleteStatus(status);
    return code;
}
