# SPDX-License-Identifier: Apache-2.0
hooksess_test(drivers training_session hooks/stage.c summary/events.c checkpoint/model.c)
hooksess_test(drivers training_roles hooks/stage.c summary/events.c)
hooksess_test(drivers verify_resume)
hooksess_test(drivers resume_record checkpoint/model.c checkpoint/cell.c)
