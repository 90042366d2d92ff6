/* SPDX-License-Identifier: Apache-2.0 */
/* The search for numbers that are not finite of hs_nan_tensor and hs_finite_guard, and the text of what they find. */
#include "hooks/nonfinite.h"

#include "base/c_locale.h"
#include "base/device.h"
#include "base/text.h"

#include <math.h>

hs_code hs__find_nonfinite(const hs_run_values *values, size_t index, const char *name, const hs_env *env, hs_tensor *value,
                           hs_nonfinite *found, hs_error *err)
{
    hs_code code;
    *value = *hs_run_values_tensor(values, index);
    if (value->memory && value->bytes > HS__SHARED_COPY)
        code = hs__device_nonfinite(value, env, found, err);
    else if (!(code = hs_run_values_host(values, index, value, err)))
        *found = hs_tensor_nonfinite(value);
    if (code)
        hs_error_prefix(err, "tensor '%s'", name);
    return code;
}

/* "loss 'loss' is NaN", or
 * "gradient 'w', float [2,3], is not finite: first at [0,1] (element 1); 2 NaN, ... of 6, the other elements from ..." */
void hs__describe_nonfinite(char *text, size_t size, const char *what, const char *name, const hs_tensor *value,
                            const hs_nonfinite *bad)
{
    char shape[HS_SHAPE_TEXT_SIZE], position[HS_SHAPE_TEXT_SIZE];
    const size_t n = value->bytes / hs_dtype_size(value->dtype);
    const bool is_complex = value->dtype == HS_COMPLEX64 || value->dtype == HS_COMPLEX128;
    const hs_shape of = hs_tensor_shape(value);
    hs_shape at = of;
    int64_t rest = bad->first_index;
    if (n == 1 && !is_complex) {
        hs__snprintf(text, size, "%s '%.256s' is %s", what, name,
                     bad->nan                 ? "NaN"
                     : bad->positive_infinity ? "+infinity"
                                              : "-infinity");
        return;
    }
    for (int i = of.rank - 1; i >= 0; i--) {
        at.dims[i] = rest % of.dims[i];
        rest /= of.dims[i];
    }
    hs__snprintf(text, size,
                 "%s '%.256s', %s %s, is not finite: first at %s (element %lld); %llu NaN, %llu +infinity, %llu -infinity "
                 "of %zu",
                 what, name, hs_dtype_name(value->dtype), hs_shape_text(&of, shape, sizeof shape),
                 hs_shape_text(&at, position, sizeof position), (long long)bad->first_index, (unsigned long long)bad->nan,
                 (unsigned long long)bad->positive_infinity, (unsigned long long)bad->negative_infinity, n);
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n && !is_complex && !value->memory; i++) {
        const double number = hs_tensor_number(value, i);
        if (isfinite(number)) {
            least = fmin(least, number);
            most = fmax(most, number);
        }
    }
    if (least <= most)
        hs__append(text, size, ", the other elements from %.9g to %.9g", least, most);
}
