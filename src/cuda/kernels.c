/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the CUDA device. make_kernels.sh compiles this file to PTX (kernels_ptx.h), which the driver compiles for the
 * device. Run it after a change. The body of each kernel is a function, which the tests' stand-in for the driver calls,
 * too. Each parameter of a kernel has 8 bytes. */
#include <stdint.h>

#ifdef __CUDA__
#define BODY   static __attribute__((device))
#define KERNEL extern "C" __attribute__((global)) void
#else
#define BODY static
#endif

/* Counts the numbers that are not finite: those in which all bits of the exponent are set.
 *
 * thread         of `threads`, which share the elements
 * bytes          of an element: 2, 4 or 8
 * fraction_bits  of an element
 * found          NaN, positive and negative infinities, to which the counts are added, and the first index, which becomes
 *                smaller */
BODY void find_nonfinite(uint64_t thread, uint64_t threads, const void *elements, uint64_t n, uint64_t bytes,
                         uint64_t fraction_bits, uint64_t *found)
{
    const uint64_t fraction = (UINT64_C(1) << fraction_bits) - 1, infinity = (UINT64_MAX >> (65 - 8 * bytes)) - fraction;
    uint64_t nan = 0, positive = 0, negative = 0, first = UINT64_MAX;
    for (uint64_t i = thread; i < n; i += threads) {
        const uint64_t bits = bytes == 2   ? ((const uint16_t *)elements)[i]
                              : bytes == 4 ? ((const uint32_t *)elements)[i]
                                           : ((const uint64_t *)elements)[i];
        if ((bits & infinity) != infinity)
            continue;
        first = i < first ? i : first;
        nan += (bits & fraction) != 0;
        positive += bits == infinity;
        negative += !(bits & fraction) && bits != infinity;
    }
    if (first == UINT64_MAX)
        return;
    __atomic_fetch_add(&found[0], nan, __ATOMIC_RELAXED);
    __atomic_fetch_add(&found[1], positive, __ATOMIC_RELAXED);
    __atomic_fetch_add(&found[2], negative, __ATOMIC_RELAXED);
    uint64_t before = __atomic_load_n(&found[3], __ATOMIC_RELAXED);
    while (first < before && !__atomic_compare_exchange_n(&found[3], &before, first, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

#ifdef __CUDA__
KERNEL hs_find_nonfinite(const void *elements, uint64_t n, uint64_t bytes, uint64_t fraction_bits, uint64_t *found)
{
    const uint64_t block = (uint32_t)__nvvm_read_ptx_sreg_ctaid_x(), width = (uint32_t)__nvvm_read_ptx_sreg_ntid_x();
    find_nonfinite(block * width + (uint32_t)__nvvm_read_ptx_sreg_tid_x(),
                   width * (uint32_t)__nvvm_read_ptx_sreg_nctaid_x(), elements, n, bytes, fraction_bits, found);
}
#endif
