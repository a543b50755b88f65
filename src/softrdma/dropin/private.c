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

extern bool private_disassociate;
bool private_disassociate;
IN_EACH_NODE(private_disassociate, "verbs_allow_disassociate_destroy")

int private_unsupported(void);
int private_unsupported(void)
{
    return EOPNOTSUPP;
}
// Names of the functions that this device does not have. Each is a version of the one function, in each node.
__asm__(".irp name, __ioctl_final_num_attrs, __verbs_log, _verbs_init_and_alloc_context, execute_ioctl, "
        "ibv_cmd_advise_mr, "
        "ibv_cmd_alloc_dm, ibv_cmd_alloc_dmah, ibv_cmd_alloc_mw, ibv_cmd_alloc_pd, ibv_cmd_attach_mcast, "
        "ibv_cmd_close_xrcd, ibv_cmd_create_ah, ibv_cmd_create_comp_cntr, ibv_cmd_create_counters, "
        "ibv_cmd_create_cq, ibv_cmd_create_cq_ex, ibv_cmd_create_cq_ex2, ibv_cmd_create_flow, "
        "ibv_cmd_create_flow_action_esp, ibv_cmd_create_qp, ibv_cmd_create_qp_ex, ibv_cmd_create_qp_ex2, "
        "ibv_cmd_create_rwq_ind_table, ibv_cmd_create_srq, ibv_cmd_create_srq_ex, ibv_cmd_create_wq, "
        "ibv_cmd_dealloc_mw, ibv_cmd_dealloc_pd, ibv_cmd_dereg_mr, ibv_cmd_destroy_ah, ibv_cmd_destroy_comp_cntr, "
        "ibv_cmd_destroy_counters, ibv_cmd_destroy_cq, ibv_cmd_destroy_flow, ibv_cmd_destroy_flow_action, "
        "ibv_cmd_destroy_qp, ibv_cmd_destroy_rwq_ind_table, ibv_cmd_destroy_srq, ibv_cmd_destroy_wq, "
        "ibv_cmd_detach_mcast, ibv_cmd_export_dmabuf_fd, ibv_cmd_free_dm, ibv_cmd_free_dmah, ibv_cmd_get_context, "
        "ibv_cmd_inc_comp_cntr, ibv_cmd_inc_err_comp_cntr, ibv_cmd_modify_cq, ibv_cmd_modify_flow_action_esp, "
        "ibv_cmd_modify_qp, ibv_cmd_modify_qp_ex, ibv_cmd_modify_srq, ibv_cmd_modify_wq, ibv_cmd_open_qp, "
        "ibv_cmd_open_xrcd, ibv_cmd_poll_cq, ibv_cmd_post_recv, ibv_cmd_post_send, ibv_cmd_post_srq_recv, "
        "ibv_cmd_qp_attach_comp_cntr, ibv_cmd_query_comp_cntr_caps, ibv_cmd_query_context, "
        "ibv_cmd_query_device_any, ibv_cmd_query_mr, ibv_cmd_query_port, ibv_cmd_query_port_speed, "
        "ibv_cmd_query_qp, ibv_cmd_query_srq, ibv_cmd_read_comp_cntr, ibv_cmd_read_counters, "
        "ibv_cmd_read_err_comp_cntr, ibv_cmd_reg_dm_mr, ibv_cmd_reg_dmabuf_mr, ibv_cmd_reg_mr, ibv_cmd_reg_mr_ex, "
        "ibv_cmd_req_notify_cq, ibv_cmd_rereg_mr, ibv_cmd_resize_cq, ibv_cmd_set_comp_cntr, "
        "ibv_cmd_set_err_comp_cntr, ibv_dmabuf_heap_alloc, ibv_dmabuf_heap_cc_shared_init, "
        "ibv_dmabuf_heap_destroy, ibv_dmabuf_heap_free, ibv_read_ibdev_sysfs_file, verbs_init_cq, "
        "verbs_open_device, verbs_set_ops, verbs_uninit_context\n"
        ".irp node," SOFTRDMA_PRIVATE_NODES
        "\n.symver private_unsupported,\\name@IBVERBS_PRIVATE_\\node\n.endr\n.endr");

IN_EACH_NODE(private_unsupported, "verbs_register_driver_\\node") // the name contains the number of the node

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
