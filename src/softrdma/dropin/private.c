/* SPDX-License-Identifier: BSD-3-Clause */
/* What libibverbs exports to provider libraries of rdma-core (libmlx5, libefa), which programs such as perftest link.
 * They find no device that they support: only ibv_query_gid_type() is called with a context of this one. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

struct ibv_context;

// Defines a version in each node of SOFTRDMA_PRIVATE_NODES, because a provider binds to that of its release.
#define IN_EACH_NODE(symbol, name)                                                                                     \
    __asm__(".irp node," SOFTRDMA_PRIVATE_NODES "\n.symver " #symbol "," name "@IBVERBS_PRIVATE_\\node\n.endr");

#define PRIVATE(name)                                                                                                  \
    int private_##name(void);                                                                                          \
    int private_##name(void)                                                                                           \
    {                                                                                                                  \
        return EOPNOTSUPP;                                                                                             \
    }                                                                                                                  \
    IN_EACH_NODE(private_##name, #name)

extern bool private_disassociate;
bool private_disassociate;
IN_EACH_NODE(private_disassociate, "verbs_allow_disassociate_destroy")

PRIVATE(__ioctl_final_num_attrs)
PRIVATE(__verbs_log)
PRIVATE(_verbs_init_and_alloc_context)
PRIVATE(execute_ioctl)
PRIVATE(ibv_cmd_advise_mr)
PRIVATE(ibv_cmd_alloc_dm)
PRIVATE(ibv_cmd_alloc_dmah)
PRIVATE(ibv_cmd_alloc_mw)
PRIVATE(ibv_cmd_alloc_pd)
PRIVATE(ibv_cmd_attach_mcast)
PRIVATE(ibv_cmd_close_xrcd)
PRIVATE(ibv_cmd_create_ah)
PRIVATE(ibv_cmd_create_comp_cntr)
PRIVATE(ibv_cmd_create_counters)
PRIVATE(ibv_cmd_create_cq)
PRIVATE(ibv_cmd_create_cq_ex)
PRIVATE(ibv_cmd_create_cq_ex2)
PRIVATE(ibv_cmd_create_flow)
PRIVATE(ibv_cmd_create_flow_action_esp)
PRIVATE(ibv_cmd_create_qp)
PRIVATE(ibv_cmd_create_qp_ex)
PRIVATE(ibv_cmd_create_qp_ex2)
PRIVATE(ibv_cmd_create_rwq_ind_table)
PRIVATE(ibv_cmd_create_srq)
PRIVATE(ibv_cmd_create_srq_ex)
PRIVATE(ibv_cmd_create_wq)
PRIVATE(ibv_cmd_dealloc_mw)
PRIVATE(ibv_cmd_dealloc_pd)
PRIVATE(ibv_cmd_dereg_mr)
PRIVATE(ibv_cmd_destroy_ah)
PRIVATE(ibv_cmd_destroy_comp_cntr)
PRIVATE(ibv_cmd_destroy_counters)
PRIVATE(ibv_cmd_destroy_cq)
PRIVATE(ibv_cmd_destroy_flow)
PRIVATE(ibv_cmd_destroy_flow_action)
PRIVATE(ibv_cmd_destroy_qp)
PRIVATE(ibv_cmd_destroy_rwq_ind_table)
PRIVATE(ibv_cmd_destroy_srq)
PRIVATE(ibv_cmd_destroy_wq)
PRIVATE(ibv_cmd_detach_mcast)
PRIVATE(ibv_cmd_export_dmabuf_fd)
PRIVATE(ibv_cmd_free_dm)
PRIVATE(ibv_cmd_free_dmah)
PRIVATE(ibv_cmd_get_context)
PRIVATE(ibv_cmd_inc_comp_cntr)
PRIVATE(ibv_cmd_inc_err_comp_cntr)
PRIVATE(ibv_cmd_modify_cq)
PRIVATE(ibv_cmd_modify_flow_action_esp)
PRIVATE(ibv_cmd_modify_qp)
PRIVATE(ibv_cmd_modify_qp_ex)
PRIVATE(ibv_cmd_modify_srq)
PRIVATE(ibv_cmd_modify_wq)
PRIVATE(ibv_cmd_open_qp)
PRIVATE(ibv_cmd_open_xrcd)
PRIVATE(ibv_cmd_poll_cq)
PRIVATE(ibv_cmd_post_recv)
PRIVATE(ibv_cmd_post_send)
PRIVATE(ibv_cmd_post_srq_recv)
PRIVATE(ibv_cmd_qp_attach_comp_cntr)
PRIVATE(ibv_cmd_query_comp_cntr_caps)
PRIVATE(ibv_cmd_query_context)
PRIVATE(ibv_cmd_query_device_any)
PRIVATE(ibv_cmd_query_mr)
PRIVATE(ibv_cmd_query_port)
PRIVATE(ibv_cmd_query_port_speed)
PRIVATE(ibv_cmd_query_qp)
PRIVATE(ibv_cmd_query_srq)
PRIVATE(ibv_cmd_read_comp_cntr)
PRIVATE(ibv_cmd_read_counters)
PRIVATE(ibv_cmd_read_err_comp_cntr)
PRIVATE(ibv_cmd_reg_dm_mr)
PRIVATE(ibv_cmd_reg_dmabuf_mr)
PRIVATE(ibv_cmd_reg_mr)
PRIVATE(ibv_cmd_reg_mr_ex)
PRIVATE(ibv_cmd_req_notify_cq)
PRIVATE(ibv_cmd_rereg_mr)
PRIVATE(ibv_cmd_resize_cq)
PRIVATE(ibv_cmd_set_comp_cntr)
PRIVATE(ibv_cmd_set_err_comp_cntr)
PRIVATE(ibv_dmabuf_heap_alloc)
PRIVATE(ibv_dmabuf_heap_cc_shared_init)
PRIVATE(ibv_dmabuf_heap_destroy)
PRIVATE(ibv_dmabuf_heap_free)
PRIVATE(ibv_read_ibdev_sysfs_file)
PRIVATE(verbs_init_cq)
PRIVATE(verbs_open_device)
PRIVATE(verbs_set_ops)
PRIVATE(verbs_uninit_context)

// The name contains the number of the node.
int private_register_driver(void);
int private_register_driver(void)
{
    return EOPNOTSUPP;
}
IN_EACH_NODE(private_register_driver, "verbs_register_driver_\\node")

const char *private_opcode_str(int opcode);
const char *private_opcode_str(int opcode)
{
    (void)opcode;
    return "unknown";
}
IN_EACH_NODE(private_opcode_str, "ibv_wr_opcode_str")

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);
int private_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);
int private_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type)
{
    return ibv_query_gid_type(context, port, index, type);
}
IN_EACH_NODE(private_query_gid_type, "ibv_query_gid_type")
