/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_INIT_H
#define HOOKSESS_INIT_H

/* Macros that initialize structs and lists, in C11 and C++20 alike.
 *
 * A struct that a program fills begins with its size, and later versions can add fields. A "Frozen" struct never changes.
 * These macros set the size:
 *
 *   HS_TRAINING_OPTIONS(...)               a pointer to options, for a call; each type has its macro
 *   HS_OPTIONS(hs_training_options, ...)   the same for any type
 *   HS_INIT(hs_training_options, ...)      an initializer of a variable, also at file scope:
 *
 *     hs_training_options o = HS_INIT(hs_training_options, .checkpoint_dir = "run");
 *
 * Name each field, as a value without a name sets the first. Other fields are 0, their default. C++ requires the order of
 * the struct.
 *
 * Lists end with a terminator, which their macros write. A named array ends with {0}, in C++ with {}:
 *
 *     hs_hook hooks[] = {hs_progress(), {0}};
 *
 * Arrays of pointers end with NULL, of codes with HS_OK, and hs_trigger.at_steps with -1.
 *
 * Lifetime of the lists and pointers that macros make:
 *
 *              in C, in a function      in C++, in a function        at file scope
 *   HS_NAMES   until the block ends     always; literals only        always
 *   others     until the block ends     until the statement ends     C: always; C++: not usable
 *
 * In C, a statement after `if` is a block, also without braces: in `if (all) names = HS_NAMES("a", "b");`, the list
 * does not exist after the semicolon. */

#include <stddef.h>

/* Macros of a system header do not cause -Wmissing-field-initializers. With nvcc they do, so the warning is disabled. */
#ifdef __CUDACC__
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
#ifdef __GNUC__
#pragma GCC system_header
#endif

#ifdef __cplusplus
#include <initializer_list>
template <class T> constexpr const T *hs__address(const T &value)
{
    return &value;
}
#define HS__ADDRESS(type, ...) hs__address(type{__VA_ARGS__})
template <class T> using hs__array = T[];
#define HS__ARRAY(type)      hs__array<type>
#define HS__VALUE(type, ...) (type{__VA_ARGS__})
#define HS__LIST(type, ...)  (std::initializer_list<type>{__VA_ARGS__}.begin())
/* The address of a pointer. Arrays and pointers to const do not compile. */
template <class T> constexpr void *hs__pointer(T **pointer)
{
    return pointer;
}
template <class T> void *hs__pointer(const T **) = delete;
/* HS__POINTEE by overloads. */
template <int n> using hs__bytes = char (&)[n];
template <class T> hs__bytes<1> hs__pointee(T);
template <class T> hs__bytes<2> hs__pointee(T **);
hs__bytes<3> hs__pointee(float *);
hs__bytes<4> hs__pointee(double *);
hs__bytes<sizeof(int) + 1> hs__pointee(int *);
hs__bytes<sizeof(int) + 1> hs__pointee(unsigned *);
hs__bytes<sizeof(long) + 1> hs__pointee(long *);
hs__bytes<sizeof(long) + 1> hs__pointee(unsigned long *);
hs__bytes<9> hs__pointee(long long *);
hs__bytes<9> hs__pointee(unsigned long long *);
template <bool fits, class T> constexpr T hs__elements(T data)
{
    static_assert(fits, "data does not point to elements of this dtype");
    return data;
}
#define HS__ELEMENTS(dtype, ...)                                                                                           \
    (hs__elements<HS__FITS(static_cast<int>(sizeof(hs__pointee(__VA_ARGS__))),                                             \
                           (__builtin_constant_p(dtype) ? static_cast<int>(dtype) : 0))>(__VA_ARGS__))
#define HS__POINTER(pointer)       hs__pointer(pointer)
#define HS__POINTED_BYTES(pointer) sizeof(**(pointer))
template <class T> constexpr T *hs__plain(T *data)
{
    return data;
}
template <class T> T **hs__plain(T **) = delete;
#define HS__PLAIN(data) hs__plain(data)
/* Arrays of as many bytes as what a pointer points to; 1 if its type is incomplete. */
template <class T> char (&hs__element(T *))[sizeof(T)];
hs__bytes<1> hs__element(void *);
#define HS__ELEMENT_BYTES(...) sizeof(hs__element(__VA_ARGS__))
#define HS__NUMBER_BYTES(...)  HS__BYTES_OF(sizeof(hs__pointee(__VA_ARGS__)))
#define HS__NULL               nullptr
#define HS_NAMES(...)                                                                                                      \
    ([]() -> const char *const * {                                                                                         \
        static constexpr const char *const hs__names[] = {__VA_ARGS__, nullptr};                                           \
        return hs__names;                                                                                                  \
    }())
#else
#define HS__ADDRESS(type, ...) (&(const type){__VA_ARGS__})
#define HS__ARRAY(type)        (type[])
#define HS__VALUE(type, ...)   ((type){__VA_ARGS__})
#define HS__LIST(type, ...)    ((const type[]){__VA_ARGS__})
/* .tensors = HS_NAMES("loss", "accuracy") */
#define HS_NAMES(...)          ((const char *const[]){__VA_ARGS__, NULL})

/* clang-format off */
/* What `data` points to: 1 anything, 2 a pointer, 3 float, 4 double, 5 or 9 integers of 4 or 8 bytes. */
#define HS__POINTEE(data)                                                                                                  \
    _Generic((data), default: 1, void **: 2, char **: 2, int **: 2, long **: 2, float **: 2, double **: 2,                 \
             float *: 3, double *: 4, int *: 5, unsigned *: 5, long *: sizeof(long) + 1,                                   \
             unsigned long *: sizeof(long) + 1, long long *: 9, unsigned long long *: 9)
/* clang-format on */
/* The dtype if it is a constant, or else 0. */
#define HS__CONSTANT(dtype)    _Generic(1 ? (void *)((long)(dtype)*0L) : (int *)0, int * : (dtype), default : 0)
#if __STDC_VERSION__ >= 201112L
#define HS__CHECK(condition, text)                                                                                         \
    ((void)sizeof(struct {                                                                                                 \
        _Static_assert(condition, text);                                                                                   \
        int unused;                                                                                                        \
    }))
#else
#define HS__CHECK(condition, text) ((void)sizeof(char[(condition) ? 1 : -1]))
#endif
#define HS__ELEMENTS(dtype, ...)                                                                                           \
    (HS__CHECK(HS__FITS(HS__POINTEE((__VA_ARGS__)), HS__CONSTANT(dtype)),                                                  \
               "data does not point to elements of this dtype"),                                                           \
     (__VA_ARGS__))

/* The address of a pointer. For the address of an array, the cast of 0 does not compile. */
#define HS__POINTER(pointer)       ((void *)(pointer))
#define HS__POINTED_BYTES(pointer) (sizeof(**(pointer)) + 0 * sizeof((__typeof__(*(pointer)))0))

/* clang-format off */
/* What `data` points to; a char for a `void *`. It points to a pointer if its value has pointer type and is no array. */
#define HS__AT(data) (*_Generic((data), void *: (char *)0, const void *: (const char *)0, default: (data)))
/* clang-format on */
#define HS__IS_POINTER(...)                                                                                                \
    (__builtin_classify_type(__VA_ARGS__) == 5 &&                                                                          \
     __builtin_types_compatible_p(__typeof__(__VA_ARGS__), __typeof__((void)0, (__VA_ARGS__))))
#define HS__ELEMENT_BYTES(...) sizeof(HS__AT((__VA_ARGS__)))
#define HS__NUMBER_BYTES(...)  HS__BYTES_OF(HS__POINTEE((__VA_ARGS__)))
#define HS__NULL               NULL
#define HS__PLAIN(data)        (HS__CHECK(!HS__IS_POINTER(HS__AT(data)), "data is the address of a pointer"), (data))
#endif

#if defined __GNUC__ && defined __OPTIMIZE__ && !defined __clang__ && !defined __CUDACC__
void hs__array_is_smaller_than_its_shape(void) __attribute__((error("the array is smaller than its shape")));
#else
#define hs__array_is_smaller_than_its_shape() ((void)0)
#endif

#define HS__ROOM(...)         __builtin_object_size((__VA_ARGS__), 0)
#define HS__BYTES_OF(pointee) ((pointee) == 3 || (pointee) == 5 ? 4 : (pointee) == 4 || (pointee) == 9 ? 8 : 1)

/* Whether memory of this type can hold elements of a dtype; 0: an unknown one. */
#define HS__FITS(pointee, dtype)                                                                                           \
    ((pointee) == 1 || ((pointee) != 2 && (dtype) == 0) ||                                                                 \
     ((pointee) == 3 && ((dtype) == HS_FLOAT || (dtype) == HS_COMPLEX64)) ||                                               \
     ((pointee) == 4 && ((dtype) == HS_DOUBLE || (dtype) == HS_COMPLEX128)) ||                                             \
     ((pointee) == 5 && ((dtype) == HS_INT32 || (dtype) == HS_UINT32 || (dtype) == HS_QINT32)) ||                          \
     ((pointee) == 9 && ((dtype) == HS_INT64 || (dtype) == HS_UINT64)))

#define HS_OPTIONS(type, ...) HS__ADDRESS(type, .size = sizeof(type), __VA_ARGS__)
#define HS_INIT(...)                                                                                                       \
    {                                                                                                                      \
        .size = sizeof(HS__FIRST(__VA_ARGS__, )), HS__REST(__VA_ARGS__, )                                                  \
    }
#define HS__COUNT(type, ...)  (sizeof(HS__ARRAY(type){__VA_ARGS__}) / sizeof(type))
#define HS__FIRST(first, ...) first
#define HS__REST(first, ...)  __VA_ARGS__

#endif
