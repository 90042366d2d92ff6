# SPDX-License-Identifier: Apache-2.0
hooksess_test(drivers training_session hooks/stage.c summary/events.c checkpoint/model.c)
