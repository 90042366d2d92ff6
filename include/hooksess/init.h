/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_INIT_H
#define HOOKSESS_INIT_H

/* Macros that initialize structs and lists. The same line compiles as C11 and as C++20.
 *
 * A struct that a program fills begins with its size, so that later versions of the library can add fields. Three macros
 * set it:
 *
 *   HS_TRAINING_OPTIONS(.checkpoint_dir = "run")             a pointer to options, for a call
 *   hs_training_options o = HS_INIT(hs_training_options, .checkpoint_dir = "run");
 *                                                            a variable, also at file scope
 *   HS_OPTIONS(hs_training_options, .checkpoint_dir = "run") what the first one stands for
 *
 * Fields that are left out are 0, their default. In C++ the designators must be in the order of the fields.
 *
 * Lists end with a terminator. The macros write it. A named array ends with {0}, in C++ with {}, as in
 *
 *   hs_hook hooks[] = {hs_progress(), {0}};
 *
 * but for lists of names, of threads and of other pointers (NULL), of codes (HS_OK) and hs_trigger.at_steps (-1).
 *
 * How long lists and pointers live that macros make:
 *
 *              in C, in a function      in C++, in a function        at file scope
 *   HS_NAMES   until the block ends     always; literals only        always
 *   others     until the block ends     until the statement ends     C: always; C++: not usable
 */

#include <stddef.h>

/* What the macros of a system header leave out is no reason for -Wmissing-field-initializers. nvcc expands macros before
 * the compiler sees where they come from: there the warning is off. */
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
/* The address of a pointer; not of an array, and not of a pointer to what is const. */
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
/* A list of names, ended by NULL: .tensors = HS_NAMES("loss", "accuracy"). */
#define HS_NAMES(...)              ((const char *const[]){__VA_ARGS__, NULL})

/* The address of a pointer. The cast of 0 does not compile for the address of an array. */
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
