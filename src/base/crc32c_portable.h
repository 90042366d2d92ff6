/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_CRC32C_PORTABLE_H
#define HS_BASE_CRC32C_PORTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
