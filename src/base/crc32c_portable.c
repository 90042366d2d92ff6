/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C by a table (by_table), or by the instructions of the processor (by_instructions), if it has them. */
#include "base/crc32c.h"

#include <string.h>

#if defined(__aarch64__) && defined(__linux__) && defined(__GNUC__)
#include <sys/auxv.h>
#endif

/* Tables of constants. The checksum is linear: the entry of a byte is the XOR of the entries of its bits. */
#define BIT(n, i, x) ((n) >> (i)&1 ? (x) : 0u)
#define ENTRY(n, a, b, c, d, e, f, g, h)                                                                                   \
    (BIT(n, 0, a) ^ BIT(n, 1, b) ^ BIT(n, 2, c) ^ BIT(n, 3, d) ^ BIT(n, 4, e) ^ BIT(n, 5, f) ^ BIT(n, 6, g) ^ BIT(n, 7, h))
#define ENTRIES_4(n, ...)                                                                                                  \
    ENTRY(n, __VA_ARGS__), ENTRY((n) + 1, __VA_ARGS__), ENTRY((n) + 2, __VA_ARGS__), ENTRY((n) + 3, __VA_ARGS__)
#define ENTRIES_16(n, ...)                                                                                                 \
    ENTRIES_4(n, __VA_ARGS__), ENTRIES_4((n) + 4, __VA_ARGS__), ENTRIES_4((n) + 8, __VA_ARGS__),                           \
        ENTRIES_4((n) + 12, __VA_ARGS__)
#define ENTRIES_64(n, ...)                                                                                                 \
    ENTRIES_16(n, __VA_ARGS__), ENTRIES_16((n) + 16, __VA_ARGS__), ENTRIES_16((n) + 32, __VA_ARGS__),                      \
        ENTRIES_16((n) + 48, __VA_ARGS__)
#define TABLE(...)                                                                                                         \
    {                                                                                                                      \
        ENTRIES_64(0u, __VA_ARGS__), ENTRIES_64(64u, __VA_ARGS__), ENTRIES_64(128u, __VA_ARGS__),                          \
            ENTRIES_64(192u, __VA_ARGS__)                                                                                  \
    }

/* after_bytes[k][b]: the state after the byte b and k zero bytes, if it was 0 before. */
static const uint32_t after_bytes[8][256] = {
    TABLE(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu, 0x417b1dbcu, 0x82f63b78u),
    TABLE(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u, 0xff17c604u, 0xfbc3faf9u),
    TABLE(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u, 0xc76580d9u, 0x8b277743u),
    TABLE(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu, 0xaba65fe7u, 0x52a0c93fu),
    TABLE(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u, 0x37516aaeu, 0x6ea2d55cu),
    TABLE(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du, 0x0e045bebu, 0x1c08b7d6u),
    TABLE(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu, 0x7ab7077au, 0xf56e0ef4u),
    TABLE(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u, 0x1a00cb32u, 0x34019664u),
};

enum { BLOCK = 256 };

/* after_block[k][b]: the state after BLOCK zero bytes, if byte k of the state was b and its others were 0. */
static const uint32_t after_block[4][256] = {
    TABLE(0xdcb17aa4u, 0xbc8e83b9u, 0x7cf17183u, 0xf9e2e306u, 0xf629b0fdu, 0xe9bf170bu, 0xd69258e7u, 0xa8c8c73fu),
    TABLE(0x547df88fu, 0xa8fbf11eu, 0x541b94cdu, 0xa837299au, 0x558225c5u, 0xab044b8au, 0x53e4e1e5u, 0xa7c9c3cau),
    TABLE(0x4a7ff165u, 0x94ffe2cau, 0x2c13b365u, 0x582766cau, 0xb04ecd94u, 0x6571edd9u, 0xcae3dbb2u, 0x902bc195u),
    TABLE(0x25bbf5dbu, 0x4b77ebb6u, 0x96efd76cu, 0x2833d829u, 0x5067b052u, 0xa0cf60a4u, 0x4472b7b9u, 0x88e56f72u),
};

/* One load instruction, if the byte order is known to be little-endian. */
static inline uint64_t little_endian(const unsigned char *p)
{
    uint64_t word;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&word, p, sizeof word);
#else
    word = 0;
    for (int i = 0; i < 8; i++)
        word |= (uint64_t)p[i] << 8 * i;
#endif
    return word;
}

static uint32_t by_table(uint32_t state, const unsigned char *at, size_t bytes)
{
    for (; bytes >= 8; at += 8, bytes -= 8) {
        uint64_t x = little_endian(at) ^ state;
        state = 0;
        for (int i = 0; i < 8; i++)
            state ^= after_bytes[7 - i][x >> 8 * i & 0xff];
    }
    for (; bytes; at++, bytes--)
        state = state >> 8 ^ after_bytes[0][(state ^ *at) & 0xff];
    return state;
}

#if defined(__x86_64__) && defined(__GNUC__)

static bool has_instructions(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

static inline uint32_t add_word(uint32_t state, uint64_t word)
{
    uint64_t wide = state;
    __asm__("crc32q %1, %0" : "+r"(wide) : "r"(word));
    return (uint32_t)wide;
}

static inline uint32_t add_byte(uint32_t state, unsigned char byte)
{
    __asm__("crc32b %1, %0" : "+r"(state) : "q"(byte));
    return state;
}

#elif defined(__aarch64__) && defined(__linux__) && defined(__GNUC__)

static bool has_instructions(void)
{
    enum { CRC32 = 1 << 7 }; /* HWCAP_CRC32 */
    return (getauxval(AT_HWCAP) & CRC32) != 0;
}

static inline uint32_t add_word(uint32_t state, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
    return state;
}

static inline uint32_t add_byte(uint32_t state, unsigned char byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(state) : "r"((uint32_t)byte));
    return state;
}

#else

static bool has_instructions(void)
{
    return false;
}

static inline uint32_t add_byte(uint32_t state, unsigned char byte)
{
    return by_table(state, &byte, 1);
}

static inline uint32_t add_word(uint32_t state, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        state = add_byte(state, (unsigned char)(word >> 8 * i & 0xff));
    return state;
}

#endif

static uint32_t skip_block(uint32_t state)
{
    return after_block[0][state & 0xff] ^ after_block[1][state >> 8 & 0xff] ^ after_block[2][state >> 16 & 0xff] ^
           after_block[3][state >> 24];
}

/* The processor can begin an instruction before the one before it has ended, if it does not need its result. So three
 * blocks are read at the same time. */
static uint32_t by_instructions(uint32_t state, const unsigned char *at, size_t bytes)
{
    for (; bytes >= 3 * BLOCK; at += 3 * BLOCK, bytes -= 3 * BLOCK) {
        uint32_t second = 0, third = 0;
        for (size_t i = 0; i < BLOCK; i += 8) {
            state = add_word(state, little_endian(at + i));
            second = add_word(second, little_endian(at + BLOCK + i));
            third = add_word(third, little_endian(at + 2 * BLOCK + i));
        }
        state = skip_block(skip_block(state) ^ second) ^ third;
    }
    for (; bytes >= 8; at += 8, bytes -= 8)
        state = add_word(state, little_endian(at));
    for (; bytes; at++, bytes--)
        state = add_byte(state, *at);
    return state;
}

bool hs__crc32c_supports(hs__crc32c_path path)
{
    return path == HS__CRC32C_TABLE || has_instructions();
}

uint32_t hs__crc32c_by(hs__crc32c_path path, uint32_t crc, const void *data, size_t bytes)
{
    return ~(path == HS__CRC32C_TABLE ? by_table : by_instructions)(~crc, data, bytes);
}
