# frozen_string_literal: true

module ActionCable
  module SubscriptionAdapter
    # Publishes to the Redis channel to which anycable-go subscribes.
    class AnyCable < Base
      CHANNEL = '__anycable__'

      def broadcast(stream, payload)
        redis.publish(CHANNEL, JSON.generate(stream: stream, data: payload))
      end

      def shutdown; end

      private

      def redis
        @redis ||= ::Redis.new(url: @server.config.cable[:url] || @server.config.cable['url'])
      end
    end
  end
end
