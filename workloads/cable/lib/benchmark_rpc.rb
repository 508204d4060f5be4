# frozen_string_literal: true

require 'json'
require_relative 'remote_connection'
require_relative 'remote_channel'

# AnyCable's RPC over HTTP: anycable-go handles the sockets and sends each client command here.
module BenchmarkRpc
  SUCCESS = 1
  ERROR = 2

  def self.call(env)
    request = JSON.parse(env.fetch('rack.input').read)
    response = public_send(env.fetch('action_dispatch.request.path_parameters').fetch(:command), request)
    [200, { 'content-type' => 'application/json' }, [JSON.generate(response)]]
  end

  def self.connect(_request)
    { status: SUCCESS, identifiers: '{}', transmissions: ['{"type":"welcome"}'] }
  end

  def self.disconnect(_request)
    { status: SUCCESS }
  end

  def self.command(request)
    connection = RemoteConnection.new
    channel = RemoteChannel.new(connection, request.fetch('identifier'))
    perform(channel, request)
    { status: SUCCESS, streams: channel.streams, transmissions: connection.transmissions }
  rescue JSON::ParserError, ArgumentError => e
    { status: ERROR, error_msg: e.message }
  end

  def self.perform(channel, request)
    case request.fetch('command')
    when 'subscribe' then channel.subscribe_to_channel
    when 'unsubscribe' then channel.unsubscribe_from_channel
    when 'message' then channel.perform_action(JSON.parse(request.fetch('data')))
    else raise ArgumentError, "unknown command #{request['command']}"
    end
  end
  private_class_method :perform
end
