/* SPDX-License-Identifier: Apache-2.0 */
#include "picture.h"

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
            picture_fill(picture, x + column * PICTURE_SCALE, y + row * PICTURE_SCALE, PICTURE_SCALE, PICTURE_SCALE,
                         (struct color){*pixels, *pixels, *pixels});
}

/* Returns the five rows of a letter. A row is a digit from 0 to 7, whose bits are the three pixels. */
static const char *rows_of(char letter)
{
    static const char *const digits[] = {"75557", "26227", "71747", "71317", "55711",
                                         "74717", "74757", "71122", "75757", "75717"};
    static const char *const letters[] = {"25755", "65656", "34443", "65556", "74647", "74644", "34553", "55755", "72227",
                                          "11152", "55655", "44447", "57755", "65555", "25552", "65644", "25563", "65655",
                                          "34216", "72222", "55557", "55552", "55775", "55255", "55222", "71247"};
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", small[] = "abcdefghijklmnopqrstuvwxyz";
    const char *at;
    if (letter >= '0' && letter <= '9')
        return digits[letter - '0'];
    if (letter && (at = strchr(alphabet, letter)))
        return letters[at - alphabet];
    if (letter && (at = strchr(small, letter)))
        return letters[at - small];
    return letter == '-' ? "00700" : "00000";
}

static void draw_letter(struct picture *picture, int x, int y, char letter, struct color color)
{
    const char *rows = rows_of(letter);
    for (int row = 0; rows[row]; row++)
        for (int column = 0; column < 3; column++)
            if ((rows[row] - '0') >> (2 - column) & 1)
                picture_fill(picture, x + column * PICTURE_SCALE, y + row * PICTURE_SCALE, PICTURE_SCALE, PICTURE_SCALE,
                             color);
}

void picture_text(struct picture *picture, int x, int y, int width, int height, const char *text, struct color color)
{
    x += (width - (int)strlen(text) * LETTER_WIDTH + PICTURE_SCALE) / 2;
    y += (height - LETTER_HEIGHT) / 2;
    for (; *text; text++, x += LETTER_WIDTH)
        draw_letter(picture, x, y, *text, color);
}
