# SPDX-License-Identifier: Apache-2.0
hooksess_test(drivers training_session hooks/stage.c summary/events.c checkpoint/model.c)
hooksess_test(drivers training_roles hooks/stage.c summary/events.c)
hooksess_test(drivers verify_resume)
hooksess_test(drivers resume_record checkpoint/model.c checkpoint/cell.c)
hooksess_test(drivers supervisor drivers/supervised.c)
hooksess_test(drivers supervisor_session drivers/supervised.c summary/events.c backends/queued.c backends/bare.c)
hooksess_test(drivers supervisor_services drivers/supervised.c summary/events.c)
