/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_TF_API_H
#define HS_TENSORFLOW_TF_API_H

#include <hooksess/tensorflow.h>

#include <tensorflow/c/c_api.h>
#include <tensorflow/c/tf_tstring.h>

#include "base/env.h"

/* TensorFlow's C functions. They are looked up when the library is loaded, so that a program starts without the library, a
 * missing function is an ordinary error, and the log of the library's initializers can be discarded. */

#define HS__TF_FUNCTIONS(F)                                                                                                \
    F(AddControlInput)                                                                                                     \
    F(AddInput)                                                                                                            \
    F(AddInputList)                                                                                                        \
    F(AllocateTensor)                                                                                                      \
    F(CloseSession)                                                                                                        \
    F(ColocateWith)                                                                                                        \
    F(DeleteBuffer)                                                                                                        \
    F(DeleteGraph)                                                                                                         \
    F(DeleteImportGraphDefOptions)                                                                                         \
    F(DeleteSession)                                                                                                       \
    F(DeleteSessionOptions)                                                                                                \
    F(DeleteStatus)                                                                                                        \
    F(DeleteTensor)                                                                                                        \
    F(Dim)                                                                                                                 \
    F(FinishOperation)                                                                                                     \
    F(GetCode)                                                                                                             \
    F(GraphGetTensorNumDims)                                                                                               \
    F(GraphGetTensorShape)                                                                                                 \
    F(GraphImportGraphDef)                                                                                                 \
    F(GraphNextOperation)                                                                                                  \
    F(GraphOperationByName)                                                                                                \
    F(GraphToGraphDef)                                                                                                     \
    F(Message)                                                                                                             \
    F(NewBuffer)                                                                                                           \
    F(NewBufferFromString)                                                                                                 \
    F(NewGraph)                                                                                                            \
    F(NewImportGraphDefOptions)                                                                                            \
    F(NewOperation)                                                                                                        \
    F(NewServer)                                                                                                           \
    F(NewSession)                                                                                                          \
    F(NewSessionOptions)                                                                                                   \
    F(NewStatus)                                                                                                           \
    F(NewTensor)                                                                                                           \
    F(NumDims)                                                                                                             \
    F(OperationDevice)                                                                                                     \
    F(OperationGetAttrBool)                                                                                                \
    F(OperationGetAttrShape)                                                                                               \
    F(OperationGetAttrString)                                                                                              \
    F(OperationGetAttrType)                                                                                                \
    F(OperationGetControlInputs)                                                                                           \
    F(OperationInput)                                                                                                      \
    F(OperationName)                                                                                                       \
    F(OperationNumControlInputs)                                                                                           \
    F(OperationNumInputs)                                                                                                  \
    F(OperationNumOutputs)                                                                                                 \
    F(OperationOpType)                                                                                                     \
    F(OperationOutputConsumers)                                                                                            \
    F(OperationOutputNumConsumers)                                                                                         \
    F(OperationOutputType)                                                                                                 \
    F(ServerStart)                                                                                                         \
    F(ServerTarget)                                                                                                        \
    F(SessionRun)                                                                                                          \
    F(SetAttrBool)                                                                                                         \
    F(SetAttrBoolList)                                                                                                     \
    F(SetAttrFloat)                                                                                                        \
    F(SetAttrFloatList)                                                                                                    \
    F(SetAttrInt)                                                                                                          \
    F(SetAttrIntList)                                                                                                      \
    F(SetAttrShape)                                                                                                        \
    F(SetAttrShapeList)                                                                                                    \
    F(SetAttrString)                                                                                                       \
    F(SetAttrStringList)                                                                                                   \
    F(SetAttrTensor)                                                                                                       \
    F(SetAttrType)                                                                                                         \
    F(SetAttrTypeList)                                                                                                     \
    F(SetConfig)                                                                                                           \
    F(SetDevice)                                                                                                           \
    F(SetTarget)                                                                                                           \
    F(StringCopy)                                                                                                          \
    F(StringDealloc)                                                                                                       \
    F(StringGetDataPointer)                                                                                                \
    F(StringGetSize)                                                                                                       \
    F(StringInit)                                                                                                          \
    F(TensorByteSize)                                                                                                      \
    F(TensorData)                                                                                                          \
    F(TensorElementCount)                                                                                                  \
    F(TensorType)                                                                                                          \
    F(Version)

typedef struct hs__tf_api {
#define HS__TF_MEMBER(name) __typeof__(TF_##name) *name;
    HS__TF_FUNCTIONS(HS__TF_MEMBER)
#undef HS__TF_MEMBER
} hs__tf_api;

/* Loads the library, unless the process has loaded it. It is never unloaded, as TensorFlow cannot be. Any thread. */
hs_code hs__tf_load(hs__tf_api *api, const hs_tensorflow_options *options, hs_error *err);

/* Returns a status as an error, with its message on one line. If it is OK, `err` does not change. */
hs_code hs__tf_check_status(const hs__tf_api *api, const TF_Status *status, hs_error *err);

#endif
