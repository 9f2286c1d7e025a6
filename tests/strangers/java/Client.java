// fabric8's client: typed and generic objects, server-side apply, an informer, a command in a pod, its log.
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.ExecWatch;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

public class Client {
    static final String NS = "java";
    static final int LIMIT_S = 120;

    static void check(boolean right, Object what) {
        if (!right)
            throw new AssertionError(String.valueOf(what));
    }

    static ConfigMap map(String value) {
        return new ConfigMapBuilder().withNewMetadata().withName("c").withNamespace(NS).endMetadata().addToData("a", value).build();
    }

    static PatchContext as(String manager, boolean force) {
        return new PatchContext.Builder().withPatchType(PatchType.SERVER_SIDE_APPLY).withFieldManager(manager).withForce(force).build();
    }

    static void objects(KubernetesClient client) throws InterruptedException {
        List<String> seen = new CopyOnWriteArrayList<>();
        CountDownLatch gone = new CountDownLatch(1);
        SharedIndexInformer<ConfigMap> informer = client.configMaps().inNamespace(NS).withName("c").inform(new ResourceEventHandler<>() {
            @Override public void onAdd(ConfigMap map) { seen.add("add"); }
            @Override public void onUpdate(ConfigMap old, ConfigMap map) { seen.add("update " + map.getData()); }
            @Override public void onDelete(ConfigMap map, boolean unknown) { seen.add("delete"); gone.countDown(); }
        });
        client.resource(map("1")).patch(as("one", false));
        try {
            client.resource(map("2")).patch(as("two", false));
            throw new AssertionError("two managers own one field");
        } catch (KubernetesClientException e) {
            check(e.getCode() == 409, e);
        }
        client.resource(map("2")).patch(as("two", true));
        client.configMaps().inNamespace(NS).withName("c").waitUntilCondition(
            m -> m != null && "2".equals(m.getData().get("a")), LIMIT_S, TimeUnit.SECONDS);
        client.configMaps().inNamespace(NS).withName("c").delete();
        check(gone.await(LIMIT_S, TimeUnit.SECONDS), seen);
        check(seen.get(0).equals("add") && seen.contains("update {a=2}"), seen);
        informer.close();
    }

    static void generic(KubernetesClient client) {
        GenericKubernetesResource queue = new GenericKubernetesResource();
        queue.setApiVersion("torchrun.ai/v1alpha1");
        queue.setKind("TorchrunQueue");
        queue.setMetadata(new io.fabric8.kubernetes.api.model.ObjectMetaBuilder().withName("q").withNamespace(NS).build());
        queue.setAdditionalProperty("spec", Map.of("image", "any"));
        client.resource(queue).create();
        check(client.genericKubernetesResources("torchrun.ai/v1alpha1", "TorchrunQueue").inNamespace(NS).list().getItems().size() == 1,
            "the queue");
    }

    static void inPod(KubernetesClient client) throws Exception {
        var pod = client.resource(new PodBuilder().withNewMetadata().withName("p").withNamespace(NS).endMetadata().withNewSpec()
            .withTerminationGracePeriodSeconds(1L).addNewContainer().withName("main").withImage("any")
            .withCommand("sh", "-c", "echo begun; sleep 1000").endContainer().endSpec().build());
        pod.create();
        pod.waitUntilReady(LIMIT_S, TimeUnit.SECONDS);
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        try (ExecWatch exec = client.pods().inNamespace(NS).withName("p").writingOutput(said).exec("sh", "-c", "echo grüße; exit 3")) {
            check(exec.exitCode().get(LIMIT_S, TimeUnit.SECONDS) == 3, "the exit status");
        }
        check(said.toString(StandardCharsets.UTF_8).equals("grüße\n"), said);
        check(client.pods().inNamespace(NS).withName("p").getLog().equals("begun\n"), "its log");
    }

    public static void main(String[] args) throws Exception {
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            client.namespaces().resource(new NamespaceBuilder().withNewMetadata().withName(NS).endMetadata().build()).create();
            objects(client);
            generic(client);
            inPod(client);
            client.namespaces().withName(NS).delete();
        }
    }
}
