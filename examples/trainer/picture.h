/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_PICTURE_H
#define TRAINER_PICTURE_H

#include <stdbool.h>

/* A small picture for TensorBoard: RGB, 3 bytes per pixel, [height][width]. */
struct picture {
    int width, height;
    unsigned char *pixels;
};

struct color {
    unsigned char red, green, blue;
};

/* A letter and the gap after it. */
enum { PICTURE_SCALE = 2, LETTER_WIDTH = 4 * PICTURE_SCALE, LETTER_HEIGHT = 5 * PICTURE_SCALE };

/* Makes a black picture. Returns false if memory runs out. */
bool picture_init(struct picture *picture, int width, int height);
void picture_free(struct picture *picture);

/* The functions below draw only inside the picture. x and y are the upper left corner. */
void picture_fill(struct picture *picture, int x, int y, int width, int height, struct color color);
/* Draws gray pixels, one byte each, as squares of PICTURE_SCALE by PICTURE_SCALE. */
void picture_gray(struct picture *picture, int x, int y, int width, int height, const unsigned char *pixels);
/* Draws letters, as capitals, digits, '-' and blanks in the middle of a rectangle. */
void picture_text(struct picture *picture, int x, int y, int width, int height, const char *text, struct color color);

#endif
