/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum by ISA-L, or by our own code where ISA-L is not available. */
#include "base/crc32c.h"

#ifdef HOOKSESS_ISAL

#include <isa-l/crc.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

/* ISA-L does not clear the upper halves of the vector registers. Until they are cleared, SSE instructions are three times
 * slower. */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx"))) static void clear_upper_halves(void)
{
    _mm256_zeroupper();
}
#endif

/* ISA-L's length is an int, its second parameter is not const, and it does not invert the checksum. */
uint32_t hs__crc32c(uint32_t crc, const void *data, size_t bytes)
{
    const size_t piece = (size_t)1 << 30;
    union {
        const void *given;
        unsigned char *wanted;
    } at = {.given = data};
    uint32_t state = ~crc;
    while (bytes) {
        size_t n = bytes < piece ? bytes : piece;
        state = crc32_iscsi(at.wanted, (int)n, state);
        at.wanted += n;
        bytes -= n;
    }
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx"))
        clear_upper_halves();
#endif
    return ~state;
}

#else

uint32_t hs__crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return hs__crc32c_by(hs__crc32c_supports(HS__CRC32C_INSTRUCTIONS) ? HS__CRC32C_INSTRUCTIONS : HS__CRC32C_TABLE, crc,
                         data, bytes);
}

#endif

uint32_t hs__crc32c_of_tensor(const hs_tensor *tensor)
{
    const hs_string *strings = tensor->data;
    uint32_t crc = 0;
    if (tensor->dtype != HS_STRING)
        return hs__crc32c(0, tensor->data, tensor->bytes);
    for (size_t i = 0; i < tensor->bytes / sizeof *strings; i++) {
        crc = hs__crc32c(crc, &strings[i].bytes, sizeof strings[i].bytes);
        crc = hs__crc32c(crc, strings[i].data, strings[i].bytes);
    }
    return crc;
}
