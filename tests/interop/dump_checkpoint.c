/* SPDX-License-Identifier: Apache-2.0 */
/* dump_checkpoint PREFIX DIRECTORY: lists a checkpoint's tensors, a line each: name, number of the type, shape, and the
 * result of reading it. The bytes of tensor N go to the file DIRECTORY/N. Each string follows its length, which has eight
 * bytes. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>

static void write_tensor(FILE *to, const hs_tensor *tensor)
{
    const hs_string *strings = tensor->data;
    hs_shape shape = hs_tensor_shape(tensor);
    int64_t n = tensor->dtype == HS_STRING ? hs_shape_elements(&shape) : 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bytes = strings[i].bytes;
        fwrite(&bytes, 8, 1, to);
        fwrite(strings[i].data, 1, strings[i].bytes, to);
    }
    if (tensor->dtype != HS_STRING)
        fwrite(tensor->data, 1, tensor->bytes, to);
}

static hs_code dump(hs_checkpoint_reader *reader, const char *name, hs_tensor tensor, const char *path, hs_error *err)
{
    tensor.data = malloc(tensor.bytes + 1);
    FILE *to = fopen(path, "wb");
    if (!tensor.data || !to)
        abort();
    hs_code code = hs_checkpoint_read(reader, name, tensor.data, tensor.bytes, err);
    if (!code)
        write_tensor(to, &tensor);
    free(tensor.data);
    if (fclose(to) != 0)
        abort();
    return code;
}

int main(int argc, char **argv)
{
    hs_error err = {0};
    if (argc < 3)
        return 2;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, argv[1], &err);
    if (!reader) {
        fprintf(stderr, "%s: %s\n", hs_code_name(err.code), err.message);
        return 1;
    }
    const char *name;
    hs_tensor info;
    for (size_t i = 0; hs_checkpoint_tensor(reader, i, &name, &info); i++) {
        char path[4096], text[HS_SHAPE_TEXT_SIZE];
        hs_shape shape = hs_tensor_shape(&info);
        snprintf(path, sizeof path, "%s/%zu", argv[2], i);
        hs_code code = dump(reader, name, info, path, &err);
        printf("%s\t%d\t%s\t%s\n", name, (int)info.dtype, hs_shape_text(&shape, text, sizeof text), hs_code_name(code));
    }
    hs_checkpoint_close(reader);
    return 0;
}
