/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_CHECKER_H
#define HS_FORMATS_CHECKER_H

#include "base/env.h"

#include <hooksess/tensor.h>

/* What is to be known of a tensor's bytes, besides that they are written. */
typedef struct hs__checked {
    uint32_t crc; /* CRC-32C, not masked */
    hs_nonfinite nonfinite;
} hs__checked;

/* Goes on with a tensor where `checked` has got to: with the `n` bytes at `piece`, whole elements, which are those from
 * byte `at` on. Begin with HS__NOT_CHECKED. */
void hs__check_piece(hs__checked *checked, hs_dtype dtype, const void *piece, size_t at, size_t n);
#define HS__NOT_CHECKED                                                                                                    \
    {                                                                                                                      \
        .crc = 0, .nonfinite = {.first_index = -1 }                                                                        \
    }

/* A thread that checks a tensor while the caller writes it. */
typedef struct hs__checker hs__checker;

/* NULL: there is no memory for it, or no thread. */
hs__checker *hs__checker_new(const hs_env *env);
/* NULL is allowed. */
void hs__checker_free(hs__checker *checker);
/* The tensor must stay as it is until the end, which waits. Each begin has one. */
void hs__checker_begin(hs__checker *checker, const hs_tensor *tensor);
hs__checked hs__checker_end(hs__checker *checker);

#endif
