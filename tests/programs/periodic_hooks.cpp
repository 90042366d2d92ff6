/* SPDX-License-Identifier: Apache-2.0 */
#include "periodic_hooks.c"
