/* SPDX-License-Identifier: Apache-2.0 */
/* Formats and parses times in UTC, and formats durations. */
#define _POSIX_C_SOURCE 200809L /* gmtime_r */
#include "times.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

const char *time_text(char text[TIME_TEXT], int64_t ns)
{
    int64_t fraction = ns % 1000000000 + (ns % 1000000000 < 0 ? 1000000000 : 0);
    time_t seconds = (time_t)((ns - fraction) / 1000000000);
    struct tm utc = {.tm_year = 70, .tm_mday = 1};
    gmtime_r(&seconds, &utc);
    snprintf(text, TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
             utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(fraction / 1000000));
    return text;
}

/* The number of days from 1970 to a date. */
static int64_t days_to(int year, int month, int day)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    int last = year - 1; /* leap days are counted up to the last year */
    int64_t leaps = last / 4 - last / 100 + last / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    return 365 * (int64_t)(year - 1970) + leaps + before[month - 1] + (is_leap && month > 2) + day - 1;
}

bool parse_time(const char *text, int64_t *ns)
{
    int year, month, day, hour, minute, second, ms, end = 0;
    char again[TIME_TEXT];
    if (strlen(text) != strlen("2024-05-01T12:30:00.250Z") ||
        sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour, &minute, &second, &ms, &end) != 7 ||
        !end || year < 1970 || year > 2200 || month < 1 || month > 12)
        return false;
    int64_t secs = ((days_to(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    *ns = secs * 1000000000 + (int64_t)ms * 1000000;
    return strcmp(time_text(again, *ns), text) == 0; /* it is a date that exists */
}

const char *duration_text(char text[TIME_TEXT], double secs)
{
    if (secs < 120)
        return hs__secs_text(text, secs);
    if (secs < 7200)
        snprintf(text, TIME_TEXT, "%.0f min", secs / 60);
    else if (secs < 2 * 86400)
        snprintf(text, TIME_TEXT, "%.1f h", secs / 3600);
    else
        snprintf(text, TIME_TEXT, "%.1f days", secs / 86400);
    return text;
}
