/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/shown.h"

#include "base/c_locale.h"

#include "event.pb-c.h"

double shown_loss;

void shown_add_loss(bare *b)
{
    shown_loss = 0.5;
    hs_graph_value(b->graph, "loss", HS_DOUBLE, HS_SCALAR, &shown_loss);
}

const char *shown_text(const hs_tensor *value)
{
    static char text[512];
    assert_int_equal(value->dtype, HS_STRING);
    assert_int_equal(value->rank, 0);
    const hs_string *string = value->data;
    Hs__Pb__Summary *summary = hs__pb__summary__unpack(NULL, string->bytes, (const uint8_t *)string->data);
    assert_non_null(summary);
    text[0] = '\0';
    for (size_t i = 0; i < summary->n_value; i++)
        hs__snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%g", i ? "," : "", summary->value[i]->tag,
                     (double)summary->value[i]->simple_value);
    hs__pb__summary__free_unpacked(summary, NULL);
    return text;
}

const char *shown_by(bare *b, const char *name)
{
    assert_ok(bare_run(b, HS_NAMES(name), NULL, NULL), &b->err);
    return shown_text(&b->values[0]);
}

size_t shown_collected(const bare *b, const char *key)
{
    return test_collection_size(hs_graph_backend(b->graph), key);
}
