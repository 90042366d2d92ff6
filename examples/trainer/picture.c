/* SPDX-License-Identifier: Apache-2.0 */
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool picture_init(struct picture *picture, int width, int height)
{
    *picture = (struct picture){.width = width, .height = height};
    picture->pixels = calloc((size_t)width * (size_t)height, 3);
    return picture->pixels;
}

void picture_free(struct picture *picture)
{
    free(picture->pixels);
    *picture = (struct picture){.pixels = NULL};
}

static void set(struct picture *picture, int x, int y, struct color color)
{
    if (x < 0 || x >= picture->width || y < 0 || y >= picture->height)
        return;
    unsigned char *pixel = picture->pixels + 3 * ((size_t)y * (size_t)picture->width + (size_t)x);
    pixel[0] = color.red;
    pixel[1] = color.green;
    pixel[2] = color.blue;
}

void picture_fill(struct picture *picture, int x, int y, int width, int height, struct color color)
{
    for (int row = 0; row < height; row++)
        for (int column = 0; column < width; column++)
            set(picture, x + column, y + row, color);
}

void picture_gray(struct picture *picture, int x, int y, int width, int height, const unsigned char *pixels)
{
    for (int row = 0; row < height; row++)
        for (int column = 0; column < width; column++, pixels++)
            set(picture, x + column, y + row, (struct color){*pixels, *pixels, *pixels});
}

static void draw_digit(struct picture *picture, int x, int y, int digit, struct color color)
{
    static const char *const shapes[] = {
        "###"
        "# #"
        "# #"
        "# #"
        "###", /* 0 */
        " # "
        "## "
        " # "
        " # "
        "###", /* 1 */
        "###"
        "  #"
        "###"
        "#  "
        "###", /* 2 */
        "###"
        "  #"
        " ##"
        "  #"
        "###", /* 3 */
        "# #"
        "# #"
        "###"
        "  #"
        "  #", /* 4 */
        "###"
        "#  "
        "###"
        "  #"
        "###", /* 5 */
        "###"
        "#  "
        "###"
        "# #"
        "###", /* 6 */
        "###"
        "  #"
        "  #"
        " # "
        " # ", /* 7 */
        "###"
        "# #"
        "###"
        "# #"
        "###", /* 8 */
        "###"
        "# #"
        "###"
        "  #"
        "###", /* 9 */
    };
    for (int i = 0; i < DIGIT_WIDTH * DIGIT_HEIGHT; i++)
        if (shapes[digit][i] == '#')
            set(picture, x + i % DIGIT_WIDTH, y + i / DIGIT_WIDTH, color);
}

void picture_number(struct picture *picture, int x, int y, long number, struct color color)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%ld", number);
    for (const char *digit = digits; *digit; digit++, x += DIGIT_WIDTH + 1)
        if (*digit >= '0' && *digit <= '9')
            draw_digit(picture, x, y, *digit - '0', color);
}

int picture_number_width(long number)
{
    return snprintf(NULL, 0, "%ld", number) * (DIGIT_WIDTH + 1) - 1;
}
