// SPDX-License-Identifier: Apache-2.0
// A stand-in for cuBLAS, over the one for CUDA's runtime: the product of matrices that examples/cuda uses, on the stream.
#pragma once
#include <cuda_runtime.h>

typedef int cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef struct fake_blas {
    cudaStream_t stream;
} * cublasHandle_t;

inline cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    static fake_blas only;
    *handle = &only;
    return 0;
}
inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return 0;
}
inline cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t a_is, cublasOperation_t b_is, int rows, int columns, int inner,
                                  const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    struct product {
        bool a_is_transposed, b_is_transposed;
        int rows, columns, inner, lda, ldb, ldc;
        float alpha, beta;
        const float *a, *b;
        float *c;
    } of{a_is == CUBLAS_OP_T, b_is == CUBLAS_OP_T, rows, columns, inner, lda, ldb, ldc, *alpha, *beta,
         static_cast<const float *>(fake_cuda_show(a)), static_cast<const float *>(fake_cuda_show(b)), static_cast<float *>(fake_cuda_show(c))};
    fake_cuda_launch(
        handle->stream,
        [](void *arguments) {
            const product *p = static_cast<product *>(arguments);
            for (int column = 0; column < p->columns; column++)
                for (int row = 0; row < p->rows; row++) {
                    float sum = 0;
                    for (int i = 0; i < p->inner; i++)
                        sum += (p->a_is_transposed ? p->a[row * p->lda + i] : p->a[i * p->lda + row]) *
                               (p->b_is_transposed ? p->b[i * p->ldb + column] : p->b[column * p->ldb + i]);
                    float *to = &p->c[column * p->ldc + row];
                    *to = p->alpha * sum + (p->beta != 0 ? p->beta * *to : 0);
                }
        },
        &of, sizeof of);
    return 0;
}
