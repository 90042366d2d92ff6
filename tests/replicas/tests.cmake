# SPDX-License-Identifier: Apache-2.0
hooksess_test(replicas group)
hooksess_test(replicas agreement replicas/ranks.c)
