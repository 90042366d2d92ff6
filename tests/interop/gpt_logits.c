/* SPDX-License-Identifier: Apache-2.0 */
/* gpt_logits MODEL.safetensors HEADS TEXT: prints the logits of examples/gpt for the successor of each byte, a line each.
 */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static struct gpt model;
    static int32_t tokens[1 << 14];
    hs_error err = {0};
    hs_tensor wpe;
    char name[32];
    hs_checkpoint_reader *reader = argc == 4 ? hs_checkpoint_open(NULL, argv[1], &err) : NULL;
    if (!reader || hs_checkpoint_find(reader, "wpe.weight", &wpe, &err)) {
        fprintf(stderr, "gpt_logits: %s\n", err.message);
        return 1;
    }
    const hs_shape shape = hs_tensor_shape(&wpe);
    int32_t layers = 0;
    while (snprintf(name, sizeof name, "h.%d.ln_1.weight", layers) > 0 &&
           hs_checkpoint_find(reader, name, &wpe, NULL) == HS_OK)
        layers++;
    const int32_t sizes[N_SIZES] = {
        [CONTEXT] = (int32_t)shape.dims[0], [LAYERS] = layers, [HEADS] = atoi(argv[2]), [WIDTH] = (int32_t)shape.dims[1]};
    if (gpt_init(&model, sizes, 1, 1, 1, &err) || sample_load(&model, reader, &err)) {
        fprintf(stderr, "gpt_logits: %s\n", err.message);
        return 1;
    }
    int n = (int)strlen(argv[3]) < model.context ? (int)strlen(argv[3]) : model.context;
    for (int i = 0; i < n; i++)
        tokens[i] = (unsigned char)argv[3][i];
    gpt_forward(&model, tokens, 1, 0, n, 0);
    for (int i = 0; i < n * VOCABULARY; i++)
        printf("%a%c", (double)model.logits[i], i % VOCABULARY == VOCABULARY - 1 ? '\n' : ' ');
    gpt_free(&model);
    hs_checkpoint_close(reader);
    return fflush(stdout) != 0;
}
