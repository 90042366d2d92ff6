// SPDX-License-Identifier: Apache-2.0
// A CUDA program as hooksess/cuda.h wants it, for cuda.sh.
#include <hooksess/cuda.h>

void add(hs_graph *graph, cudaStream_t stream, float *&parameters, float *&loss, size_t n)
{
    hs_cuda *cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = stream), nullptr);
    hs_cuda_variable(cuda, graph, "parameters", HS_FLOAT, HS_SHAPE(n), &parameters);
    hs_cuda_variable(cuda, graph, "moments", HS_FLOAT, HS_SHAPE(n), &parameters, .nonfinite = true);
    hs_cuda_value(cuda, graph, "loss", HS_FLOAT, HS_SCALAR, &loss);
}
