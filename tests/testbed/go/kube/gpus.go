package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const socketName = "split-ppo-gpus.sock"

// gpus is a device plugin for GPUs that are not there. The kubelet, the scheduler and the pod can't tell: capacity,
// allocation of single devices and their loss on restart are Kubernetes' own code.
type gpus struct {
	devices.UnimplementedDevicePluginServer
	count int
}

func (g gpus) GetDevicePluginOptions(context.Context, *devices.Empty) (*devices.DevicePluginOptions, error) {
	return &devices.DevicePluginOptions{}, nil
}

// ListAndWatch reports every GPU as healthy and then keeps the stream open: the kubelet takes its end for their loss.
func (g gpus) ListAndWatch(_ *devices.Empty, stream devices.DevicePlugin_ListAndWatchServer) error {
	answer := &devices.ListAndWatchResponse{}
	for i := range g.count {
		answer.Devices = append(answer.Devices, &devices.Device{ID: fmt.Sprintf("GPU-%d", i), Health: devices.Healthy})
	}
	if err := stream.Send(answer); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate tells the container which GPUs are its own, in the variable NVIDIA's plugin uses.
func (g gpus) Allocate(_ context.Context, asked *devices.AllocateRequest) (*devices.AllocateResponse, error) {
	answer := &devices.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		ids := strings.Join(container.DevicesIds, ",")
		answer.ContainerResponses = append(answer.ContainerResponses,
			&devices.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": ids}})
	}
	return answer, nil
}

// register serves the plugin's socket and tells the kubelet about it. The kubelet empties the folder when it starts,
// so both happen again each time its own socket appears.
func (g gpus) register(folder, resource string) (*grpc.Server, error) {
	socket := filepath.Join(folder, socketName)
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	devices.RegisterDevicePluginServer(server, g)
	go server.Serve(listener)
	connection, err := grpc.NewClient("unix://"+filepath.Join(folder, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return server, err
	}
	defer connection.Close()
	_, err = devices.NewRegistrationClient(connection).Register(context.Background(), &devices.RegisterRequest{
		Version: devices.Version, Endpoint: socketName, ResourceName: resource,
	}, grpc.WaitForReady(true))
	return server, err
}

func runGPUPlugin() {
	count := flag.Int("count", 1, "how many GPUs to advertise")
	resource := flag.String("resource", "nvidia.com/gpu", "the extended resource they are")
	folder := flag.String("folder", "/var/lib/kubelet/device-plugins", "where the kubelet looks for device plugins")
	flag.Parse()
	if err := os.MkdirAll(*folder, 0o750); err != nil {
		log.Fatal(err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Fatal(err)
	}
	if err := watcher.Add(*folder); err != nil {
		log.Fatal(err)
	}
	plugin, kubelet := gpus{count: *count}, filepath.Join(*folder, "kubelet.sock")
	var server *grpc.Server
	register := func() {
		if server != nil {
			server.Stop()
		}
		if server, err = plugin.register(*folder, *resource); err != nil {
			log.Printf("the kubelet did not take %d %s: %v", *count, *resource, err)
			return
		}
		log.Printf("the kubelet has %d %s", *count, *resource)
	}
	if running, err := net.Dial("unix", kubelet); err == nil { // the file alone may be of an earlier life
		running.Close()
		register()
	}
	for event := range watcher.Events {
		if event.Name == kubelet && event.Has(fsnotify.Create) {
			register()
		}
	}
}
