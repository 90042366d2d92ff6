/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_CRC32C_H
#define HS_BASE_CRC32C_H

#include <hooksess/tensor.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli), the checksum of TensorFlow's records and bundles. */

/* Continues a checksum: `crc` is the checksum of the bytes before these, 0 for none. */
uint32_t hs__crc32c(uint32_t crc, const void *data, size_t bytes);
/* The checksum of the elements of a tensor in host memory. A string counts with its length. */
uint32_t hs__crc32c_of_tensor(const hs_tensor *tensor);

/* The stored form of a checksum. Files store it masked because data may contain checksums. */
static inline uint32_t hs__crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static inline uint32_t hs__crc32c_unmask(uint32_t masked)
{
    uint32_t rotated = masked - 0xa282ead8u;
    return (rotated >> 17) | (rotated << 15);
}

/* CRC-32C without ISA-L, for builds with -DHOOKSESS_ISAL=OFF. It has two implementations, which differ only in speed. */
typedef enum hs__crc32c_path {
    HS__CRC32C_TABLE,        /* eight bytes at a time, by tables of 8 KiB. Works everywhere */
    HS__CRC32C_INSTRUCTIONS, /* the instructions of SSE4.2 or of ARMv8 */
} hs__crc32c_path;

/* False: this processor lacks the instructions. */
bool hs__crc32c_supports(hs__crc32c_path path);
/* hs__crc32c() in one implementation, which must be supported. */
uint32_t hs__crc32c_by(hs__crc32c_path path, uint32_t crc, const void *data, size_t bytes);

#endif
