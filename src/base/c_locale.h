/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_C_LOCALE_H
#define HS_BASE_C_LOCALE_H

#include <hooksess/status.h>

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

/* The C locale for texts: files, log lines and messages have a decimal point and English words, whatever locale the program
 * sets. Inside the library, snprintf is for texts without a number of floating point. */

/* Between begin and end, this thread formats and parses in the C locale. If memory for that locale is exhausted, the
 * current one is used. */
typedef struct hs__c_locale {
    locale_t c, before;
} hs__c_locale;

static inline hs__c_locale hs__c_locale_begin(void)
{
    hs__c_locale locale = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    locale.before = uselocale(locale.c);
    return locale;
}

static inline void hs__c_locale_end(hs__c_locale locale)
{
    uselocale(locale.before);
    if (locale.c)
        freelocale(locale.c);
}

static inline int hs__vsnprintf(char *to, size_t bytes, const char *format, va_list arguments) HS_PRINTF(3, 0);
static inline int hs__vsnprintf(char *to, size_t bytes, const char *format, va_list arguments)
{
    const char *point = nl_langinfo(RADIXCHAR);
    if (strcmp(point, ".") == 0) /* a log line has several numbers, and to set the locale takes as long as one */
        return vsnprintf(to, bytes, format, arguments);
    hs__c_locale locale = hs__c_locale_begin();
    int length = vsnprintf(to, bytes, format, arguments);
    hs__c_locale_end(locale);
    return length;
}

static inline int hs__snprintf(char *to, size_t bytes, const char *format, ...) HS_PRINTF(3, 4);
static inline int hs__snprintf(char *to, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = hs__vsnprintf(to, bytes, format, arguments);
    va_end(arguments);
    return length;
}

#endif
