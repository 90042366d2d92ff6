/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_INIT_H
#define HOOKSESS_INIT_H

/* Macros that initialize structs and lists. The same line compiles as C11 and as C++20.
 *
 * A struct that a program fills begins with its size, so that later versions of the library can add fields. These macros
 * set the size:
 *
 *   HS_TRAINING_OPTIONS(...)               a pointer to options, for a call; each type has its macro
 *   HS_OPTIONS(hs_training_options, ...)   the same for any type
 *   HS_INIT(hs_training_options, ...)      an initializer of a variable, also at file scope:
 *
 *     hs_training_options o = HS_INIT(hs_training_options, .checkpoint_dir = "run");
 *
 * Fields that are not named are 0, their default. C++ requires the order of the struct.
 *
 * Lists end with a terminator, which their macros write. A named array ends with {0}, in C++ with {}:
 *
 *     hs_hook hooks[] = {hs_progress(), {0}};
 *
 * Lists of names, threads and other pointers end with NULL, lists of codes with HS_OK, and hs_trigger.at_steps with -1.
 *
 * Lifetime of the lists and pointers that macros make:
 *
 *              in C, in a function      in C++, in a function        at file scope
 *   HS_NAMES   until the block ends     always; literals only        always
 *   others     until the block ends     until the statement ends     C: always; C++: not usable
 */

#include <stddef.h>

/* Macros of a system header do not cause -Wmissing-field-initializers. nvcc hides from the compiler that they come from
 * one, so with nvcc the warning is disabled. */
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
#define HS__POINTER(pointer)       hs__pointer(pointer)
#define HS__POINTED_BYTES(pointer) sizeof(**(pointer))
#define HS_NAMES(...)                                                                                                      \
    ([]() -> const char *const * {                                                                                         \
        static constexpr const char *const hs__names[] = {__VA_ARGS__, nullptr};                                           \
        return hs__names;                                                                                                  \
    }())
#else
#define HS__ADDRESS(type, ...)     (&(const type){__VA_ARGS__})
#define HS__ARRAY(type)            (type[])
#define HS__VALUE(type, ...)       ((type){__VA_ARGS__})
#define HS__LIST(type, ...)        ((const type[]){__VA_ARGS__})
/* A list of names: .tensors = HS_NAMES("loss", "accuracy"). */
#define HS_NAMES(...)              ((const char *const[]){__VA_ARGS__, NULL})

/* The address of a pointer. For the address of an array, the cast of 0 does not compile. */
#define HS__POINTER(pointer)       ((void *)(pointer))
#define HS__POINTED_BYTES(pointer) (sizeof(**(pointer)) + 0 * sizeof((__typeof__(*(pointer)))0))
#endif

#define HS_OPTIONS(type, ...) HS__ADDRESS(type, .size = sizeof(type), __VA_ARGS__)
#define HS_INIT(...)                                                                                                       \
    {                                                                                                                      \
        .size = sizeof(HS__FIRST(__VA_ARGS__, )), HS__REST(__VA_ARGS__, )                                                  \
    }
#define HS__COUNT(type, ...)  (sizeof(HS__ARRAY(type){__VA_ARGS__}) / sizeof(type))
#define HS__FIRST(first, ...) first
#define HS__REST(first, ...)  __VA_ARGS__

#endif
