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

enum { DIGIT_WIDTH = 3, DIGIT_HEIGHT = 5 };

/* Makes a black picture. Returns false if memory runs out. */
bool picture_init(struct picture *picture, int width, int height);
void picture_free(struct picture *picture);

/* The functions below draw only inside the picture. x and y are the upper left corner. */
void picture_fill(struct picture *picture, int x, int y, int width, int height, struct color color);
/* Draws gray pixels, one byte each. */
void picture_gray(struct picture *picture, int x, int y, int width, int height, const unsigned char *pixels);
/* Draws a number of at least 0, in digits of DIGIT_WIDTH by DIGIT_HEIGHT pixels. */
void picture_number(struct picture *picture, int x, int y, long number, struct color color);
int picture_number_width(long number);

#endif
