/* SPDX-License-Identifier: Apache-2.0 */
/* Loads CUDA's driver, and converts its errors. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static hs__cuda_driver loaded;
static hs_error load_error; /* code HS_OK: `loaded` is complete */

static hs_code find(void *library, const char *symbol, void *function)
{
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof found);
    return found ? HS_OK
                 : hs_error_set(&load_error, HS_UNAVAILABLE, "CUDA: the driver lacks %s; install a newer one", symbol);
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* stays loaded, as threads of its own may run */
    if (!library) {
        hs_error_set(&load_error, HS_UNAVAILABLE, "CUDA: cannot load the driver: %s", dlerror());
        return;
    }
#define HS__CUDA_FIND(name, symbol, parameters)                                                                            \
    if (find(library, #symbol, &loaded.name))                                                                              \
        return;
    HS__CUDA_FUNCTIONS(HS__CUDA_FIND)
    hs__cuda_result(&loaded, loaded.cuInit(0), "cuInit", &load_error);
}

const hs__cuda_driver *hs__cuda_load(hs_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!load_error.code)
        return &loaded;
    *err = load_error;
    return NULL;
}

static hs_code code_of(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return HS_OK;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
        return HS_INVALID_ARGUMENT;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return HS_RESOURCE_EXHAUSTED;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return HS_UNAVAILABLE;
    case CUDA_ERROR_NOT_SUPPORTED:
        return HS_UNIMPLEMENTED;
    default:
        return HS_INTERNAL;
    }
}

hs_code hs__cuda_result(const hs__cuda_driver *driver, CUresult result, const char *what, hs_error *err)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS)
        return HS_OK;
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown error";
    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
        text = "no text";
    return hs_error_set(err, code_of(result), "%s: %s (%d): %s", what, name, result, text);
}
