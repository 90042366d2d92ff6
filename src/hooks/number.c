/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/number.h"

bool hs__is_number(hs_dtype dtype, int32_t rank)
{
    return (dtype == HS_FLOAT || dtype == HS_DOUBLE) && rank == 0;
}

hs_code hs__number_read(const hs__number *number, const hs_raw_session *session, double *value, hs_error *err)
{
    hs_backend backend = hs_raw_session_backend(session);
    hs_host_copy copy = {.env = hs_backend_env(backend)};
    hs_tensor there, here;
    hs_code code = backend.ops->read_variable(hs_raw_session_handle(session), number->variable, &there, err);
    if (!code && !there.data)
        code = hs_error_set(err, HS_FAILED_PRECONDITION, "it has no memory yet");
    if (!code && !(code = hs_tensor_host(&there, &copy, &here, err)))
        *value = hs_tensor_number(&here, 0);
    hs_host_copy_free(&copy);
    return code;
}

hs_code hs__number_write(const hs__number *number, const hs_raw_session *session, double value, hs_error *err)
{
    hs_backend backend = hs_raw_session_backend(session);
    float single = (float)value;
    hs_tensor tensor = hs_tensor_of(number->dtype, HS_SCALAR, number->dtype == HS_FLOAT ? (void *)&single : &value);
    return backend.ops->write_variable(hs_raw_session_handle(session), number->variable, &tensor, err);
}
