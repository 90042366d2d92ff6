# SPDX-License-Identifier: Apache-2.0
hooksess_test(testing script)
hooksess_test(testing simulated_kill)
hooksess_test(testing simulation)
hooksess_test(testing system)
