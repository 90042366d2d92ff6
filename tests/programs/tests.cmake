# SPDX-License-Identifier: Apache-2.0
# Programs as people are to write them.
hooksess_test(programs feeds)
hooksess_test(programs hook_without_model)
