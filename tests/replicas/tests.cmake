# SPDX-License-Identifier: Apache-2.0
hooksess_test(replicas epoch_permutation)
hooksess_test(replicas group)
hooksess_test(replicas rng)
