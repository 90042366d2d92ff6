/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_TF_API_H
#define HS_TENSORFLOW_TF_API_H

#include <hooksess/tensorflow.h>

#include <tensorflow/c/c_api.h>
#include <tensorflow/c/tf_tstring.h>

#include "base/env.h"

/* TensorFlow's C functions, which are looked up when the library is loaded: the program starts without it, a missing one is
 * an error like any other, and what it logs while it is loaded can be kept from the terminal. */

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

/* Loads the library, or finds that it is there. It stays for as long as the process: TensorFlow cannot be unloaded. Any
 * thread. */
hs_code hs__tf_load(hs__tf_api *api, const hs_tensorflow_options *options, hs_error *err);

/* What a status says, with its message on one line. HS_OK leaves `err` as it is. */
hs_code hs__tf_settle(const hs__tf_api *api, const TF_Status *status, hs_error *err);

#endif
